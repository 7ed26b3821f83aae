/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/polling.h"

#include "base/least.h"
#include "base/ticks.h"
#include "transport/arena.h"
#include "transport/slot.h"

/*
 * The rate that a copy should at least have. A native copy of pageable memory keeps its thread busy
 * for as long.
 */
#define COPY_BYTES_PER_US 8000

/*
 * When the queued copies of pinned memory should be over, in ticks: a thread that synchronizes
 * polls until then, as natively.
 */
static uint64_t busy_until;

/* Threads may overwrite each other's value: it is an estimate. */
void polling_queued(uint64_t bytes)
{
	uint64_t now = ticks(), until = __atomic_load_n(&busy_until, __ATOMIC_RELAXED);

	if ((int64_t)(until - now) < 0)
		until = now;
	__atomic_store_n(&busy_until, until + bytes * ticks_per_us() / PARACUDA_QUEUED_BYTES_PER_US,
			 __ATOMIC_RELAXED);
}

/*
 * How long a thread polls by itself if other threads may want its processor, or if the context asks
 * for sleep: sleeping and waking take about as long. After that the kernel driver polls, which
 * knows who wants the processor. Entering and leaving it delays an answer by up to 20 us in User
 * Mode Linux, so a program's only thread polls longer by itself.
 */
#define OWN_US 200
#define OWN_ALONE_US 1000

static uint64_t own_us(bool sleeps)
{
	return sleeps || !slot_alone() ? OWN_US : OWN_ALONE_US;
}

/* Copies are polled for as long as they should take, but not at all where spin-guest is 0. */
uint64_t polling_ticks(uint64_t payload, bool sleeps, uint64_t now)
{
	uint64_t most = channel_policy(&channel.header->spin_guest_us);
	uint64_t copy = payload * ticks_per_us() / COPY_BYTES_PER_US;
	int64_t queued = (int64_t)(__atomic_load_n(&busy_until, __ATOMIC_RELAXED) - now);

	if (queued > 0)
		copy += (uint64_t)queued;
	return least(most, own_us(sleeps)) * ticks_per_us() +
	       least(copy, PARACUDA_COPY_SPINS * least(most, OWN_US) * ticks_per_us());
}

uint64_t polling_while_held(void)
{
	return OWN_US * ticks_per_us();
}

uint64_t polling_in_driver(bool sleeps)
{
	uint64_t spin = channel_policy(&channel.header->spin_guest_us), own = own_us(sleeps);

	return spin > own && !sleeps ? (spin - own) * 1000 : 0;
}
