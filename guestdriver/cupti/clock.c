/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "clock.h"

#include <stddef.h>
#include <time.h>

static uint64_t nanoseconds(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_now(void)
{
	return nanoseconds(CLOCK_MONOTONIC);
}

static uint64_t time_of_day(void)
{
	return nanoseconds(CLOCK_REALTIME);
}

/* Both clocks at one moment. */
struct reading {
	uint64_t ns, client;
};

static uint64_t (*client_now)(void) = time_of_day;
static struct reading first, last;

uint64_t clock_client_now(void)
{
	return client_now();
}

static struct reading read_both(void)
{
	struct reading best = { 0, 0 };
	uint64_t least = ~0ull;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_now(), client = client_now(), after = clock_now();

		if (after - before < least) {
			least = after - before;
			best = (struct reading){ before + least / 2, client };
		}
	}
	return best;
}

void clock_use(uint64_t (*now)(void))
{
	client_now = now ? now : time_of_day;
	first = last = read_both();
}

/* Two readings closer than this don't tell how fast one clock is by the other. */
#define APART 1000000u

void clock_read(void)
{
	if (!first.ns)
		first = read_both();
	do
		last = read_both();
	while (last.ns - first.ns < APART);
}

uint64_t clock_client(uint64_t ns)
{
	__int128 since = (__int128)ns - first.ns;

	return first.client +
	       (uint64_t)(since * (last.client - first.client) / (last.ns - first.ns));
}
