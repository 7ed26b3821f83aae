/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's work, which is recorded between two events. Their times are asked for when it is
 * over.
 */
#ifndef PARACUDA_CUPTI_WORK_H
#define PARACUDA_CUPTI_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "external.h"
#include "paracuda_table.h"
#include "place.h"

struct work {
	struct work *next;
	struct paracuda_work given;
	struct place *place;
	struct anchor *anchor;
	void *start, *end; /* events */
	uint64_t called, returned; /* the call's times */
	uint64_t began, ended; /* the work's, once it is over */
	uint32_t correlation, stream, thread;
	const char *name;
	int registers, shared, local;
	uint64_t external[EXTERNAL_KINDS];
	uint8_t externals; /* bits of the kinds that have a number */
	uint64_t kinds; /* of records that were wanted when it was given */
};

/* Which kinds of records are wanted: bits of enum kind. */
extern uint64_t work_kinds;

/* Asks the guest's libcuda to report work, or to stop. */
void work_watch(bool on);

/*
 * Guards all of this library's state, also the client's callbacks, except what is thread-local.
 */
void work_lock(void);
void work_unlock(void);

/* Writes records of all work that is over. */
void work_drain(void);

/* Writes the records of one piece of work. */
void work_record(const struct work *w);

#endif
