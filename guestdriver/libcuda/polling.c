/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "polling.h"

#include <sched.h>

#include "channel.h"
#include "context.h"
#include "least.h"
#include "ticks.h"

/* The rate that a copy is expected to have at least: a native copy of pageable memory occupies its thread for as long. */
#define COPY_BYTES_PER_US 8000

/*
 * When the copies of pinned memory that were queued should be over, in ticks: natively, too, a thread that synchronizes
 * polls.
 */
static uint64_t busy_until;

/* Several threads may overwrite one another's: it is an estimate. */
void polling_queued(uint64_t bytes)
{
	uint64_t now = ticks(), until = __atomic_load_n(&busy_until, __ATOMIC_RELAXED);

	if ((int64_t)(until - now) < 0)
		until = now;
	__atomic_store_n(&busy_until, until + bytes * ticks_per_us() / PARACUDA_QUEUED_BYTES_PER_US, __ATOMIC_RELAXED);
}

/* So long every thread polls, that of a context that asks for sleep, too: sleep and wake-up take about as long. */
#define ANY_US 200
/* After that it lets others have the processor so often. */
#define YIELD_US 50
/*
 * Who gets it back later than this after what that takes at least was not the only one that wanted it; so many times in a
 * row, and they have more to do with it than to poll.
 */
#define WANTED_US 20
#define WANTED_TIMES 3

/* Whether a thread polls for longer. More of them would keep processors from the threads that have something to do. */
static int one_polls;

/* The least that letting others have the processor took, in ticks. */
static uint64_t least_yield = UINT64_MAX / 4;

static bool context_blocks(void)
{
	const struct context *c = context_current();

	return c && (__atomic_load_n(&c->flags, __ATOMIC_RELAXED) & CTX_SCHED_MASK) == CTX_SCHED_BLOCKING_SYNC;
}

/* Copies are polled for as long as they should take, by every thread, but not at all where spin-guest is 0. */
static void begin(struct polling *p, uint64_t now)
{
	uint64_t spin = channel_policy(&channel.header->spin_guest_us) * ticks_per_us();
	uint64_t copy = p->payload * ticks_per_us() / COPY_BYTES_PER_US;
	int64_t queued = (int64_t)(__atomic_load_n(&busy_until, __ATOMIC_RELAXED) - now);

	if (queued > 0)
		copy += (uint64_t)queued;
	copy = least(copy, PARACUDA_COPY_SPINS * spin);
	p->any = now + least(spin, ANY_US * ticks_per_us()) + copy;
	p->one = context_blocks() ? p->any : now + spin + copy;
	p->yield = now + ANY_US * ticks_per_us();
}

/* Lets others have the processor, and says whether some wanted it. In User Mode Linux that is any thread of the process. */
static bool processor_wanted(void)
{
	uint64_t before = ticks(), took, usual = __atomic_load_n(&least_yield, __ATOMIC_RELAXED);

	sched_yield();
	took = ticks() - before;
	if (took < usual)
		__atomic_store_n(&least_yield, took, __ATOMIC_RELAXED);
	return took > 2 * usual + WANTED_US * ticks_per_us();
}

bool polling_over(struct polling *p)
{
	uint64_t now = ticks();

	if (!p->any)
		begin(p, now);
	if (now >= p->one)
		return true;
	if (now >= p->any && !p->mine) {
		p->mine = !__atomic_exchange_n(&one_polls, 1, __ATOMIC_RELAXED);
		if (!p->mine)
			return true;
	}
	if (now < p->yield)
		return false;
	p->wanted = processor_wanted() ? p->wanted + 1 : 0;
	if (p->wanted == WANTED_TIMES)
		return true;
	p->yield = ticks() + YIELD_US * ticks_per_us();
	return false;
}

void polling_end(struct polling *p)
{
	if (p->mine)
		__atomic_store_n(&one_polls, 0, __ATOMIC_RELAXED);
}
