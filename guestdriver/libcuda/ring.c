/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "ring.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "pause.h"
#include "transport.h"

#define HEADER sizeof(struct paracuda_command)

_Static_assert(sizeof(struct paracuda_command) == PARACUDA_SIZEOF_COMMAND, "command");
_Static_assert((PARACUDA_RING_BYTES & (PARACUDA_RING_BYTES - 1)) == 0, "positions wrap at 2^32");

static int locked;		/* held while a command is written; no system call is made under it */
static uint32_t appended;	/* guarded by `locked`, as are these */
static uint32_t published;
static uint32_t unpublished;	/* commands appended and not published */

static void lock_ring(void)
{
	for (unsigned tries = 0; __atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE);) {
		while (__atomic_load_n(&locked, __ATOMIC_RELAXED)) {
			if (++tries < 200)
				cpu_pause();
			else
				sched_yield();
		}
	}
}

static void unlock_ring(void)
{
	__atomic_store_n(&locked, 0, __ATOMIC_RELEASE);
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

size_t ring_bytes(const struct request *r)
{
	size_t bytes = HEADER + 8u * r->words;

	for (unsigned i = 0; i < r->pieces; i++) {
		if (r->piece[i].bytes > PARACUDA_COMMAND_MAX)
			return 0;
		bytes += padded(r->piece[i].bytes);
	}
	return bytes <= PARACUDA_COMMAND_MAX ? bytes : 0;
}

static void write_command(uint8_t *at, const struct request *r, size_t bytes, int slot, bool reply, uint32_t seq)
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
	for (unsigned i = 0; i < r->pieces; i++) {
		const struct piece *p = &r->piece[i];
		uint64_t reference = (uint64_t)PARACUDA_BUFFER_INLINE << 56 | offset;

		if (p->word >= 0)
			memcpy(at + HEADER + 8u * (unsigned)p->word, &reference, 8);
		memcpy(at + offset, p->data, p->bytes);
		memset(at + offset + p->bytes, 0, padded(p->bytes) - p->bytes);
		offset += padded(p->bytes);
	}
}

/*
 * The NOP that must go before a command of `bytes` at the current end: one is needed when the command would
 * cross the ring's end, or leave there a rest too short for a NOP.
 */
static uint32_t fill_before(size_t bytes)
{
	uint32_t rest = PARACUDA_RING_BYTES - appended % PARACUDA_RING_BYTES;

	if (bytes > rest || (bytes < rest && rest - bytes < HEADER))
		return rest;
	return 0;
}

static void write_nop(uint8_t *at, uint32_t bytes)
{
	struct paracuda_command nop = { .op = PARACUDA_OP_NOP, .size = bytes };

	memcpy(at, &nop, HEADER);
}

/* Publishes and wakes the worker. The ring is locked. Returns whether to kick. */
static bool publish_locked(void)
{
	struct paracuda_arena_header *h = channel.header;

	if (published != appended) {
		published = appended;
		unpublished = 0;
		__atomic_store_n(&h->published, published, __ATOMIC_RELEASE);
	}
	/* Pairs with the worker's: it sets worker_sleeping, then looks at `appended` once more. */
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

void ring_publish(void)
{
	bool wake;

	lock_ring();
	wake = publish_locked();
	unlock_ring();
	if (wake)
		kick();
}

/* Whether a command and the NOP before it fit now. The ring is locked. */
static bool fits(size_t bytes)
{
	uint32_t taken = appended - __atomic_load_n(&channel.header->consumed, __ATOMIC_ACQUIRE);

	/* A worker that claims to have consumed what was never appended gets nothing more. */
	return taken <= PARACUDA_RING_BYTES && bytes + fill_before(bytes) <= PARACUDA_RING_BYTES - taken;
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

static bool publish_now(bool reply)
{
	struct paracuda_arena_header *h = channel.header;

	if (reply || unpublished >= channel.batch_commands || appended - published >= channel.batch_bytes)
		return true;
	/* Orders the store of `appended` before the load of `consumed`: either the worker, before it sleeps,
	 * sees the command, or the worker is seen idle here. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* It may be past `published`: it takes what was appended when it has nothing else to do. */
	return (int32_t)(__atomic_load_n(&h->consumed, __ATOMIC_RELAXED) - published) >= 0;
}

CUresult ring_append(const struct request *r, size_t bytes, int slot, bool reply, uint32_t seq)
{
	uint8_t *ring = channel.arena + PARACUDA_RING;
	unsigned turns = 0;
	bool wake = false;
	uint32_t fill;

	lock_ring();
	while (!fits(bytes)) {
		CUresult dead;

		wake = publish_locked();
		unlock_ring();
		if (wake)
			kick();
		dead = channel_dead();
		if (dead)
			return dead;
		wait_for_room(&turns);
		lock_ring();
	}
	fill = fill_before(bytes);
	if (fill) {
		write_nop(ring + appended % PARACUDA_RING_BYTES, fill);
		appended += fill;
	}
	write_command(ring + appended % PARACUDA_RING_BYTES, r, bytes, slot, reply, seq);
	appended += (uint32_t)bytes;
	unpublished++;
	__atomic_store_n(&channel.header->appended, appended, __ATOMIC_RELEASE);
	wake = publish_now(reply) && publish_locked();
	unlock_ring();
	if (wake)
		kick();
	return CUDA_SUCCESS;
}
