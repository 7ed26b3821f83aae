/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/channel.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/pause.h"
#include "base/ticks.h"
#include "transport/bulk.h"
#include "transport/output.h"
#include "transport/polling.h"
#include "transport/ring.h"
#include "transport/slot.h"
#include "transport/transport.h"
#include "transport/zz_generated_layouts.h"

/* Written atomically. */
static struct {
	unsigned awaiting; /* how many want no call delayed */
} state;

enum { SLOT_WORDS = sizeof(((struct paracuda_slot *)0)->word) / sizeof(uint64_t) };

_Static_assert(sizeof(struct paracuda_slot) == PARACUDA_SLOT_BYTES, "slot");

int channel_open(unsigned int gpu)
{
	struct paracuda_ioctl_open args = { .version = PARACUDA_VERSION, .channel = gpu };
	void *arena = NULL;
	int error = transport->open(&args, &arena);

	if (error)
		return error;
	if (args.arena_bytes < PARACUDA_BULK + 65536)
		return EPROTO;
	channel.arena = arena;
	channel.arena_bytes = args.arena_bytes;
	channel.header = arena;
	ticks_init();
	bulk_init(PARACUDA_BULK, args.arena_bytes - PARACUDA_BULK);
	return 0;
}

void channel_await_all(bool begin)
{
	__atomic_fetch_add(&state.awaiting, begin ? 1 : -1u, __ATOMIC_SEQ_CST);
}

void channel_drop(const struct request *r)
{
	for (unsigned i = 0; i < r->maps; i++) {
		struct request unmap;

		request_begin(&unmap, PARACUDA_OP_UNMAP, r->context, r->sleeps);
		words_UNMAP(&unmap, r->map[i]);
		unmap.always = true;
		channel_call(&unmap, NULL, 0);
	}
}

CUresult channel_post(const struct request *r)
{
	size_t bytes = ring_bytes(r);
	CUresult error;

	if (__atomic_load_n(&state.awaiting, __ATOMIC_RELAXED))
		return channel_call(r, NULL, 0);
	error = channel_error(!r->exact);
	if (!error && !bytes)
		error = CUDA_ERROR_INVALID_VALUE;
	if (error) {
		channel_drop(r);
		return error;
	}
	if (r->payload)
		polling_queued(r->payload);
	return ring_append(r, bytes, slot_of_thread(), false, 0);
}

CUresult channel_append(const struct request *r)
{
	size_t bytes = ring_bytes(r);

	return bytes ? ring_append(r, bytes, slot_of_thread(), false, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult channel_send(const struct request *r, struct ticket *t)
{
	size_t bytes = ring_bytes(r);
	CUresult error = r->always ? CUDA_SUCCESS : channel_error(!r->exact);

	if (!error && !bytes)
		error = CUDA_ERROR_INVALID_VALUE;
	if (error) {
		channel_drop(r);
		return error;
	}
	t->slot = slot_of_thread();
	t->seq = slot_begin(t->slot);
	t->payload = r->payload;
	t->sleeps = r->sleeps;
	error = ring_append(r, bytes, t->slot, true, t->seq);
	if (error)
		slot_end(t->slot);
	return error;
}

CUresult channel_send_ahead(const struct request *r, struct ticket *t)
{
	CUresult error = channel_error(false);

	if (error)
		return error;
	*t = (struct ticket){ .slot = SLOT_AHEAD, .seq = slot_begin(SLOT_AHEAD) };
	return ring_append(r, ring_bytes(r), SLOT_AHEAD, true, t->seq);
}

static struct paracuda_slot *slot_at(int slot)
{
	return (struct paracuda_slot *)(channel.arena + PARACUDA_SLOTS +
					(size_t)slot * PARACUDA_SLOT_BYTES);
}

/* Whether commands wait for the VM's turn on the GPU, while which nobody should poll. */
static bool held(void)
{
	return __atomic_load_n(&channel.header->held, __ATOMIC_RELAXED);
}

/* Polls for the answer; false if it didn't come in the time for polling. */
static bool poll_slot(const struct paracuda_slot *slot, const struct ticket *t)
{
	uint64_t end = 0, early = 0;

	for (unsigned i = 1;; i++) {
		if (__atomic_load_n(&slot->done, __ATOMIC_ACQUIRE) == t->seq)
			return true;
		if (i % 16 == 0) {
			uint64_t now = ticks();

			if (!end) {
				end = now + polling_ticks(t->payload, t->sleeps, now);
				early = now + polling_while_held();
			}
			if (now >= end || (now >= early && held()) ||
			    __atomic_load_n(&channel.header->dead, __ATOMIC_RELAXED))
				return false;
		}
		cpu_pause();
	}
}

static struct paracuda_ioctl_wait wait_for(int slot)
{
	return (struct paracuda_ioctl_wait){
		.offset = (uint32_t)(PARACUDA_SLOTS + slot * PARACUDA_SLOT_BYTES),
		.value = __atomic_load_n(&slot_at(slot)->done, __ATOMIC_ACQUIRE),
	};
}

/*
 * Makes the driver poll, which may end each try early. False if the answer didn't come in that
 * time, if others want the processor, or if the VM's turn is over.
 */
static bool poll_driver(const struct ticket *t)
{
	uint64_t left = polling_in_driver(t->sleeps), begin = ticks(), passed = 0;
	int saved = errno;

	while (passed < left && !held()) {
		struct paracuda_ioctl_wait wait = wait_for(t->slot);

		wait.timeout_ns = left - passed;
		if (wait.value == t->seq || transport->poll(&wait) != ETIMEDOUT)
			break;
		passed = (ticks() - begin) * 1000 / ticks_per_us();
	}
	errno = saved;
	return __atomic_load_n(&slot_at(t->slot)->done, __ATOMIC_ACQUIRE) == t->seq;
}

/*
 * Sleeps until the answer is there or the worker is gone. False if only the VM's turn has begun:
 * the answer may come soon.
 */
static bool sleep_slot(const struct ticket *t)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	int saved = errno;
	bool over = true;

	__atomic_fetch_add(&channel.header->sleepers, 1, __ATOMIC_SEQ_CST);
	/* Pairs with the worker's, between `done` and its look at `sleepers`. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (;;) {
		struct paracuda_ioctl_wait wait = wait_for(t->slot);
		int error;

		if (wait.value == t->seq ||
		    __atomic_load_n(&channel.header->dead, __ATOMIC_ACQUIRE))
			break;
		error = transport->wait(&wait);
		if (error == EAGAIN && !t->sleeps) {
			over = false;
			break;
		}
		if (error == EIO || error == ENODEV || error == ENOTCONN)
			break;
		if (error && error != EINTR && error != ETIMEDOUT && error != EAGAIN)
			nanosleep(&pause, NULL);
	}
	__atomic_fetch_sub(&channel.header->sleepers, 1, __ATOMIC_SEQ_CST);
	errno = saved;
	return over;
}

CUresult channel_wait(struct ticket *t, uint64_t *out, unsigned outs)
{
	const struct paracuda_slot *slot = slot_at(t->slot);
	CUresult result;
	uint32_t words;

	while (!poll_slot(slot, t) && !poll_driver(t) && !sleep_slot(t))
		;
	if (__atomic_load_n(&slot->done, __ATOMIC_ACQUIRE) != t->seq) {
		slot_end(t->slot);
		output_drain();
		result = channel_dead();
		return result ? result : channel_unavailable();
	}
	result = slot->result;
	words = slot->words;
	for (unsigned i = 0; i < outs; i++)
		out[i] = i < words && i < SLOT_WORDS ? slot->word[i] : 0;
	slot_end(t->slot);
	output_drain();
	if (result < 0)
		result = CUDA_ERROR_UNKNOWN;
	return result;
}

CUresult channel_call(const struct request *r, uint64_t *out, unsigned outs)
{
	struct ticket t;
	CUresult error = channel_send(r, &t);

	if (error) {
		for (unsigned i = 0; i < outs; i++)
			out[i] = 0;
		return error;
	}
	return channel_wait(&t, out, outs);
}

void channel_leave(struct thread *t)
{
	struct request r;

	if (!t->slot || t->shared)
		return;
	request_begin(&r, PARACUDA_OP_THREAD_EXIT, 0, false);
	words_THREAD_EXIT(&r);
	channel_post(&r);
	slot_leave(t);
}
