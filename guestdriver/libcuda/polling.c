/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "polling.h"

#include "channel.h"
#include "ticks.h"

/* The rate that a copy is expected to have at least: a native copy of pageable memory occupies its thread for as long. */
#define COPY_BYTES_PER_US 8000

/* The same of queued copies of pinned memory, for which natively a thread that synchronizes polls. */
#define QUEUED_BYTES_PER_US 20000

/* Copies are polled for so many times spin-guest at most: 20 ms where spin-guest is 200 us, not at all where it is 0. */
#define COPY_SPINS 100

static uint64_t busy_until;	/* when the copies that were queued should be over, in ticks */

/* Several threads may overwrite one another's: it is an estimate. */
void polling_queued(uint64_t bytes)
{
	uint64_t now = ticks(), until = __atomic_load_n(&busy_until, __ATOMIC_RELAXED);

	if ((int64_t)(until - now) < 0)
		until = now;
	__atomic_store_n(&busy_until, until + bytes * ticks_per_us() / QUEUED_BYTES_PER_US, __ATOMIC_RELAXED);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t polling_ticks(uint64_t payload, uint64_t now)
{
	uint64_t spin = channel_policy(&channel.header->spin_guest_us) * ticks_per_us();
	uint64_t copy = payload * ticks_per_us() / COPY_BYTES_PER_US;
	int64_t queued = (int64_t)(__atomic_load_n(&busy_until, __ATOMIC_RELAXED) - now);

	if (queued > 0)
		copy += (uint64_t)queued;
	return spin + least(copy, COPY_SPINS * spin);
}
