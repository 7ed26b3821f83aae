/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts in which work is recorded: each has events to spare, and moments at which both its time
 * and the host's are known.
 */
#ifndef PARACUDA_CUPTI_PLACE_H
#define PARACUDA_CUPTI_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/* A moment: the time of an event, and the host's. */
struct anchor {
	void *event;
	uint64_t ns;
	unsigned users;
};

struct spare;

struct place {
	void *context;
	int device;
	uint32_t number;
	void *stream; /* of its own, on which its moments are recorded */
	struct anchor *anchor; /* the last one */
	struct spare *spare; /* events that nobody uses */
};

/* The calling thread's context, or NULL where there is none or no room for it. */
struct place *place_current(void);

/* Forgets a place whose context has ended. */
void place_end(struct place *p);

/* A recent moment of a place, which must be given back; NULL if there is none. */
struct anchor *place_anchor(struct place *p);
void place_anchor_give(struct place *p, struct anchor *a);

/* An event of a place, NULL if none can be made. */
void *place_event(struct place *p);
void place_event_give(struct place *p, void *event);

#endif
