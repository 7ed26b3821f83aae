/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/ticks.h"

#include <time.h>

/* Written by the start alone. */
static struct {
	uint64_t rate; /* ticks per us; until it is measured, as if they were ns */
} state = { 1000 };

static uint64_t nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#if !defined(__x86_64__)
uint64_t ticks(void)
{
	return nanoseconds();
}
#endif

uint64_t ticks_per_us(void)
{
	return state.rate;
}

/* Long enough that two system calls on its edges don't matter. */
#define SPAN_NS 200000

void ticks_init(void)
{
	uint64_t start = nanoseconds(), from = ticks(), now;

	do {
		now = nanoseconds();
	} while (now - start < SPAN_NS);
	state.rate = (ticks() - from) * 1000 / (now - start);
	if (!state.rate)
		state.rate = 1;
}
