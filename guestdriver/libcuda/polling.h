/* SPDX-License-Identifier: Apache-2.0 */
/* How long a thread polls for an answer before it sleeps: natively, too, it polls while the device works. */
#ifndef PARACUDA_POLLING_H
#define PARACUDA_POLLING_H

#include <stdbool.h>
#include <stdint.h>

/* Notes that a copy of so many bytes was queued, which later calls will wait for. */
void polling_queued(uint64_t bytes);

/* One thread's polling for one answer. */
struct polling {
	uint64_t payload;	/* bytes that the call moves itself */
	uint64_t any;		/* until when any thread polls, in ticks; 0: it hasn't begun */
	uint64_t one;		/* until when one thread does */
	uint64_t yield;		/* when others get the processor next */
	bool mine;		/* this is that one */
	unsigned wanted;	/* how often others wanted it, in a row */
};

/* Whether to poll no longer. Asked again and again, it lets other threads have the processor from time to time. */
bool polling_over(struct polling *p);

void polling_end(struct polling *p);

#endif
