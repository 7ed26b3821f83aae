/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/ring.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/pause.h"
#include "transport/arena.h"
#include "transport/transport.h"

#define HEADER sizeof(struct paracuda_command)

_Static_assert(sizeof(struct paracuda_command) == PARACUDA_SIZEOF_COMMAND, "command");
_Static_assert((PARACUDA_RING_BYTES & (PARACUDA_RING_BYTES - 1)) == 0, "positions wrap at 2^32");

/* Written by who sends a command, under `locked`. */
static struct {
	int locked; /* held while a command is written; no system call is made under it */
	uint32_t appended;
	/* The value when it was last read, which is done when the ring seems full. */
	uint32_t consumed;
} state;

static void lock_ring(void)
{
	for (unsigned tries = 0; __atomic_exchange_n(&state.locked, 1, __ATOMIC_ACQUIRE);) {
		while (__atomic_load_n(&state.locked, __ATOMIC_RELAXED)) {
			if (++tries < 200)
				cpu_pause();
			else
				sched_yield();
		}
	}
}

static void unlock_ring(void)
{
	__atomic_store_n(&state.locked, 0, __ATOMIC_RELEASE);
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

size_t ring_bytes(const struct request *r)
{
	size_t bytes = HEADER + 8u * r->words;

	if (r->refused)
		return 0;
	for (unsigned i = 0; i < r->tails; i++) {
		if (r->tail[i].bytes > PARACUDA_COMMAND_MAX)
			return 0;
		bytes += padded(r->tail[i].bytes);
	}
	return bytes <= PARACUDA_COMMAND_MAX ? bytes : 0;
}

static void write_command(uint8_t *at, const struct request *r, size_t bytes, int slot, bool reply,
			  uint32_t seq)
{
	struct paracuda_command command = {
		.op = r->op,
		.flags = reply ? PARACUDA_COMMAND_FLAG_REPLY : 0,
		.size = (uint32_t)bytes,
		.context = r->context,
		.slot = (uint16_t)slot,
		.seq = seq,
	};
	size_t offset = HEADER + 8u * r->words;

	memcpy(at, &command, HEADER);
	memcpy(at + HEADER, r->word, 8u * r->words);
	for (unsigned i = 0; i < r->tails; i++) {
		const struct tail *p = &r->tail[i];
		uint64_t reference = (uint64_t)PARACUDA_BUFFER_INLINE << 56 | offset;

		if (p->word >= 0)
			memcpy(at + HEADER + 8u * (unsigned)p->word, &reference, 8);
		memcpy(at + offset, p->data, p->bytes);
		memset(at + offset + p->bytes, 0, padded(p->bytes) - p->bytes);
		offset += padded(p->bytes);
	}
}

/*
 * The bytes of the NOP that must go before a command of `bytes`: one is needed if the command would
 * cross the ring's end, or leave too little room there for a NOP.
 */
static uint32_t fill_before(size_t bytes)
{
	uint32_t rest = PARACUDA_RING_BYTES - state.appended % PARACUDA_RING_BYTES;

	if (bytes > rest || (bytes < rest && rest - bytes < HEADER))
		return rest;
	return 0;
}

static void write_nop(uint8_t *at, uint32_t bytes)
{
	struct paracuda_command nop = { .op = PARACUDA_OP_NOP, .size = bytes };

	memcpy(at, &nop, HEADER);
}

/*
 * Whether the worker sleeps and the caller must wake it. Called after storing what the worker must
 * look at.
 */
static bool must_kick(void)
{
	struct paracuda_arena_header *h = channel.header;

	/* Pairs with the worker's: it sets worker_sleeping, then looks once more. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&h->worker_sleeping, __ATOMIC_RELAXED) == 1 &&
	       __atomic_exchange_n(&h->worker_sleeping, 0, __ATOMIC_SEQ_CST) == 1;
}

static void kick(void)
{
	int error = transport->kick();

	if (error)
		log_line("kick: error %d", error);
}

void ring_wake(void)
{
	if (must_kick())
		kick();
}

/* Whether so much is free, as far as is known. */
static bool has_room(size_t need)
{
	uint32_t used = state.appended - state.consumed;

	return used <= PARACUDA_RING_BYTES && need <= PARACUDA_RING_BYTES - used;
}

/* Whether a command and the NOP before it fit now. The ring is locked. */
static bool fits(size_t bytes)
{
	size_t need = bytes + fill_before(bytes);

	if (has_room(need))
		return true;
	state.consumed = __atomic_load_n(&channel.header->consumed, __ATOMIC_ACQUIRE);
	/* A worker that claims to have consumed more than was appended gets nothing more. */
	return has_room(need);
}

/* Waits a little for the worker to consume: polling at first, then in short sleeps. */
static void wait_for_room(unsigned *turns)
{
	struct timespec t = { .tv_nsec = 50000 };

	if ((*turns)++ < 2000)
		cpu_pause();
	else
		nanosleep(&t, NULL);
}

/* Hands over one command and waits until it is taken: the baseline without batches. */
static void hand_over(uint32_t end)
{
	unsigned turns = 0;

	kick();
	while ((int32_t)(__atomic_load_n(&channel.header->consumed, __ATOMIC_ACQUIRE) - end) < 0 &&
	       !channel_dead())
		wait_for_room(&turns);
}

CUresult ring_append(const struct request *r, size_t bytes, int slot, bool reply, uint32_t seq)
{
	uint8_t *ring = channel.arena + PARACUDA_RING;
	unsigned turns = 0;
	uint32_t fill, end;

	lock_ring();
	while (!fits(bytes)) {
		CUresult dead;

		unlock_ring();
		dead = channel_dead();
		if (dead)
			return dead;
		wait_for_room(&turns);
		lock_ring();
	}
	fill = fill_before(bytes);
	if (fill) {
		write_nop(ring + state.appended % PARACUDA_RING_BYTES, fill);
		state.appended += fill;
	}
	write_command(ring + state.appended % PARACUDA_RING_BYTES, r, bytes, slot, reply, seq);
	if (r->inlined)
		channel_copied(r->inlined);
	state.appended += (uint32_t)bytes;
	end = state.appended;
	__atomic_store_n(&channel.header->appended, end, __ATOMIC_RELEASE);
	/*
	 * The worker has read the next cache lines; they are fetched back while the caller does
	 * other things.
	 */
	for (unsigned i = 0; i < 4; i++)
		__builtin_prefetch(ring + (end + 64 * i) % PARACUDA_RING_BYTES, 1);
	unlock_ring();
	if (channel_undelayed() && !reply)
		hand_over(end);
	else if (must_kick() || channel_undelayed())
		kick();
	return CUDA_SUCCESS;
}
