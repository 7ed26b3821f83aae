/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/buffer.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "transport/arena.h"
#include "transport/bulk.h"
#include "transport/transport.h"

/*
 * How long to wait while other processes' copies have pinned as much as all processes together may.
 * They give it back soon, unless a process is hostile. There is no such limit if this process's own
 * copies fill its queue: they may wait for kernels.
 */
uint64_t map_patience_ns = 10000000000;

#define PAUSE_LEAST_NS 20000
#define PAUSE_MOST_NS 1000000

struct patience {
	uint64_t pause, waited; /* ns */
};

/* Waits, longer each time. Returns whether to try again. */
static bool wait_for_pins(struct patience *p, int error)
{
	struct timespec pause = { .tv_nsec = (long)p->pause };

	if (error == EBUSY && p->waited >= map_patience_ns)
		return false;
	nanosleep(&pause, NULL);
	if (error == EBUSY)
		p->waited += p->pause;
	p->pause = p->pause * 2 < PAUSE_MOST_NS ? p->pause * 2 : PAUSE_MOST_NS;
	return true;
}

CUresult map_memory(const void *data, size_t bytes, unsigned flags, uint32_t *id)
{
	struct paracuda_ioctl_map map = {
		.address = (uint64_t)(uintptr_t)data,
		.bytes = bytes,
		.flags = flags,
	};
	struct patience patience = { .pause = PAUSE_LEAST_NS };
	int error;

	while ((error = transport->map(&map)) == EAGAIN || error == EBUSY || error == EINTR) {
		CUresult dead = channel_dead();

		if (dead)
			return dead;
		if (!wait_for_pins(&patience, error))
			break;
	}
	*id = map.id;
	switch (error) {
	case 0:
		return CUDA_SUCCESS;
	case EINVAL:
	case E2BIG:
		return CUDA_ERROR_NOT_READY;
	case EFAULT:
		return CUDA_ERROR_INVALID_VALUE;
	case ENOSPC:
		log_line("pinning %zu bytes: this process has pinned memory in %u places already, "
			 "which is the limit",
			 bytes, PARACUDA_KEPT_MAPS);
		return CUDA_ERROR_OUT_OF_MEMORY;
	case EBUSY:
	case ENOMEM:
		log_line("pinning %zu bytes: too much is pinned (the limits: max_pinned_mb, "
			 "user_share and heed_memlock of the paracuda kernel module, ulimit -l)",
			 bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	case EIO:
	case ENODEV:
		return channel_dead() ? channel_dead() : CUDA_ERROR_DEVICE_UNAVAILABLE;
	default:
		log_line("pinning %zu bytes at %p: error %d", bytes, data, error);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

static CUresult pin(const void *data, size_t bytes, unsigned flags, struct argument *a)
{
	uint32_t id;
	CUresult error = map_memory(data, bytes, flags | PARACUDA_MAP_FLAG_ONESHOT, &id);

	if (!error) {
		*a = argument_map(id, 0, bytes);
		a->pinned = true;
	}
	/*
	 * One argument can't be cut up: its memory is so scattered that the device can't take it at
	 * once.
	 */
	return error == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : error;
}

CUresult buffer_in(struct argument *a, struct buffer *b, const void *data, size_t bytes)
{
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	if (!data)
		return CUDA_SUCCESS;
	if (bytes <= PARACUDA_INLINE_ALWAYS ||
	    (bytes <= channel_inline_limit() && bytes <= PARACUDA_INLINE_MAX)) {
		*a = argument_inline(data, bytes);
		return CUDA_SUCCESS;
	}
	b->bulk = bulk_take(bytes);
	if (!b->bulk)
		return pin(data, bytes, 0, a);
	channel_copied(bytes);
	memcpy(channel.arena + b->bulk, data, bytes);
	*a = argument_bulk(b->bulk, bytes);
	return CUDA_SUCCESS;
}

CUresult buffer_out(struct argument *a, struct buffer *b, void *data, size_t bytes)
{
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	if (!data || !bytes)
		return CUDA_SUCCESS;
	b->bulk = bulk_take(bytes);
	if (!b->bulk)
		return pin(data, bytes, PARACUDA_MAP_FLAG_WRITE, a);
	channel_copied(bytes);
	memset(channel.arena + b->bulk, 0, bytes);
	b->out = data;
	b->bytes = bytes;
	*a = argument_bulk(b->bulk, bytes);
	return CUDA_SUCCESS;
}

void buffer_done(struct buffer *b)
{
	if (!b->bulk)
		return;
	if (b->out)
		memcpy(b->out, channel.arena + b->bulk, b->bytes);
	bulk_give(b->bulk);
	b->bulk = 0;
}
