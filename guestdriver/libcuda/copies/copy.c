/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "copies/copy.h"

#include <sched.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "copies/capture_pin.h"
#include "copies/copy_parts.h"
#include "streams/activity.h"
#include "streams/capture.h"
#include "streams/stream.h"
#include "transport/bulk.h"

/* The registration at an address: how many bytes it holds from there, 0 for none. */
static uint64_t find_registration(const struct memory *m, uint64_t address, struct side *s)
{
	for (unsigned i = 0; i < m->registrations_count; i++) {
		const struct registration *g = &m->registrations[i];

		if (address - g->base < g->bytes) {
			s->map = g->map;
			s->offset = g->offset + (address - g->base);
			return g->bytes - (address - g->base);
		}
	}
	return 0;
}

CUresult side_find(uint64_t address, uint64_t bytes, int hint, struct side *s)
{
	struct memory m;

	*s = (struct side){ .address = address, .at_once = hint == SIDE_AT_ONCE };
	if (!memory_find(address, &m)) {
		/* In the window only the worker allocates: what isn't known isn't allocated. */
		if (memory_in_window(address))
			return CUDA_ERROR_INVALID_VALUE;
		s->device = s->unknown = hint == SIDE_DEVICE;
		return CUDA_SUCCESS;
	}
	/*
	 * The driver refuses what begins in memory that it knows, the host's included, and ends
	 * beyond it.
	 */
	if (bytes > m.bytes - (address - m.base))
		return CUDA_ERROR_INVALID_VALUE;
	if (memory_by_address(&m)) {
		s->managed = m.kind == MEMORY_MANAGED && !s->at_once;
		s->device = s->managed || memory_on_device(&m);
		return CUDA_SUCCESS;
	}
	if (s->at_once)
		return CUDA_SUCCESS;
	s->pinned = find_registration(&m, address, s) >= bytes;
	s->several = !s->pinned && m.registrations_count;
	return CUDA_SUCCESS;
}

enum paracuda_memory side_memory(const struct side *s)
{
	return s->device	       ? PARACUDA_DEVICE :
	       s->pinned || s->several ? PARACUDA_PINNED :
					 PARACUDA_PAGEABLE;
}

CUresult copy_send(const struct request *r, bool unknown)
{
	return unknown ? channel_call(r, NULL, 0) : channel_post(r);
}

/* Copies between the device and pinned memory. The copy engine reaches both, so nobody waits. */
static CUresult copy_pinned(unsigned op, const struct side *device, const struct side *host,
			    size_t bytes, CUstream stream, bool async)
{
	struct request r;

	copy_request(&r, op, device->address, argument_map(host->map, host->offset, bytes), bytes,
		     number_of(stream), async ? 0 : PARACUDA_COPY_FLAG_BLOCKING);
	if (async)
		return copy_send(&r, device->unknown);
	return channel_synced(channel_call(&r, NULL, 0));
}

/* The same for memory of several registrations: part by part. The last part is waited for. */
static CUresult copy_several(unsigned op, const struct side *device, uint64_t host, size_t bytes,
			     CUstream stream, bool async)
{
	CUresult result = CUDA_SUCCESS;
	struct side there = *device;

	while (!result && bytes) {
		struct side s = { .address = host };
		struct memory m;
		uint64_t part = memory_find(host, &m) ? find_registration(&m, host, &s) : 0;

		if (!part) /* it was freed meanwhile */
			return CUDA_ERROR_INVALID_VALUE;
		if (part > bytes)
			part = bytes;
		result = copy_pinned(op, &there, &s, part, stream, async || part < bytes);
		there.address += part;
		host += part;
		bytes -= part;
	}
	return result;
}

/*
 * A small copy from host to device. The bytes travel in commands, so the source is free at once and
 * nobody waits.
 */
static CUresult copy_inline(const struct side *device, const uint8_t *host, size_t bytes,
			    CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t at = 0; !result && at < bytes; at += PARACUDA_INLINE_MAX) {
		size_t part = bytes - at < PARACUDA_INLINE_MAX ? bytes - at : PARACUDA_INLINE_MAX;
		struct request r;

		copy_request(&r, OP_CopyHtoD, device->address + at,
			     argument_inline(host + at, part), part, number_of(stream), 0);
		result = copy_send(&r, device->unknown);
	}
	return result;
}

/* How much the device reads from the bulk area while the next step is copied there. */
#define BULK_STEP ((size_t)64 << 10)

/*
 * Copies from host to device through the bulk area, in steps. The area is free again when the last
 * step is answered, as the stream takes them in order. NOT_READY: no room.
 */
static CUresult send_bulk(uint64_t device, const uint8_t *host, size_t bytes, size_t step,
			  CUstream stream)
{
	uint64_t bulk = bulk_take(bytes);
	CUresult result = CUDA_SUCCESS;

	if (!bulk)
		return CUDA_ERROR_NOT_READY;
	channel_copied(bytes);
	for (size_t at = 0; !result && at < bytes; at += step) {
		bool last = bytes - at <= step;
		size_t part = last ? bytes - at : step;
		struct request r;

		memcpy(channel.arena + bulk + at, host + at, part);
		copy_request(&r, OP_CopyHtoD, device + at, argument_bulk(bulk + at, part), part,
			     number_of(stream), 0);
		r.exact =
			true; /* an earlier call's error must not end this before the last answer */
		result = last ? channel_call(&r, NULL, 0) : channel_post(&r);
	}
	if (result && bytes > step) /* steps before a refused one may still be read */
		cuStreamSynchronize(stream);
	bulk_give(bulk);
	return channel_synced(result);
}

/* A small copy from device to host, through the bulk area. NOT_READY: no room. */
static CUresult copy_bulk(uint64_t device, void *host, size_t bytes, CUstream stream)
{
	uint64_t bulk = bulk_take(bytes);
	struct request r;
	CUresult result;

	if (!bulk)
		return CUDA_ERROR_NOT_READY;
	channel_copied(bytes);
	copy_request(&r, OP_CopyDtoH, device, argument_bulk(bulk, bytes), bytes, number_of(stream),
		     PARACUDA_COPY_FLAG_BLOCKING);
	result = channel_synced(channel_call(&r, NULL, 0));
	if (!result)
		memcpy(host, channel.arena + bulk, bytes);
	bulk_give(bulk);
	return result;
}

/*
 * Copies pageable memory through the bulk area, where nothing is passed by reference. The gain of
 * address mapping is measured against this, so nothing is done at the same time.
 */
static CUresult copy_through_arena(unsigned op, uint64_t device, uint8_t *host, size_t bytes,
				   CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	while (!result && bytes) {
		size_t part = bytes < bulk_limit() / 2 ? bytes : bulk_limit() / 2;

		result = op == OP_CopyHtoD ? send_bulk(device, host, part, part, stream) :
					     copy_bulk(device, host, part, stream);
		if (result == CUDA_ERROR_NOT_READY) { /* other threads have all of it */
			sched_yield();
			result = CUDA_SUCCESS;
			continue;
		}
		device += part;
		host += part;
		bytes -= part;
	}
	return result;
}

static CUresult copy_large(unsigned op, uint64_t device, uint8_t *host, size_t bytes,
			   CUstream stream)
{
	return channel_maps() ? copy_parts(op, device, host, bytes, stream) :
				copy_through_arena(op, device, host, bytes, stream);
}

static CUresult host_to_device(const struct side *dst, const struct side *src, size_t bytes,
			       CUstream stream, bool async)
{
	uint8_t *host = (uint8_t *)(uintptr_t)src->address;
	CUresult result = CUDA_ERROR_NOT_READY;

	/*
	 * A program may still fill pinned memory after it has queued an asynchronous copy: the
	 * memory is read when the copy's turn comes.
	 */
	if (src->pinned)
		return copy_pinned(OP_CopyHtoD, dst, src, bytes, stream, async);
	if (src->several)
		return copy_several(OP_CopyHtoD, dst, src->address, bytes, stream, async);
	if (bytes <= channel_inline_limit()) {
		if (async || bytes <= PARACUDA_INLINE_MAX)
			return copy_inline(dst, host, bytes, stream);
		result = send_bulk(dst->address, host, bytes, BULK_STEP, stream);
	}
	if (result == CUDA_ERROR_NOT_READY)
		result = copy_large(OP_CopyHtoD, dst->address, host, bytes, stream);
	return result;
}

static CUresult device_to_host(const struct side *dst, const struct side *src, size_t bytes,
			       CUstream stream, bool async)
{
	uint8_t *host = (uint8_t *)(uintptr_t)dst->address;
	CUresult result = CUDA_ERROR_NOT_READY;

	if (dst->pinned)
		return copy_pinned(OP_CopyDtoH, src, dst, bytes, stream, async);
	if (dst->several)
		return copy_several(OP_CopyDtoH, src, dst->address, bytes, stream, async);
	if (bytes <= channel_inline_limit())
		result = copy_bulk(src->address, host, bytes, stream);
	if (result == CUDA_ERROR_NOT_READY)
		result = copy_large(OP_CopyDtoH, src->address, host, bytes, stream);
	return result;
}

static CUresult copy_on_device(const struct side *to, const struct side *from, size_t bytes,
			       CUstream stream)
{
	struct request r;

	request_cuMemcpyDtoDAsync_v2(&r, to->address, from->address, bytes, number_of(stream));
	return copy_send(&r, to->unknown || from->unknown);
}

/*
 * A captured copy between device and host memory. Each run of the graph reads or writes the host's
 * memory anew.
 */
static CUresult copy_captured(unsigned op, uint64_t device, uint64_t host, uint64_t bytes,
			      CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (uint64_t done = 0; !result && done < bytes;) {
		struct side there = { .address = device + done }, s = { .address = host + done };
		uint64_t part = bytes - done;

		capture_pins_begin();
		result = capture_pin(s.address, &part, &s.map, &s.offset);
		if (!result)
			result = copy_pinned(op, &there, &s, part, stream, true);
		capture_pins_end();
		done += part;
	}
	return result;
}

CUresult copy_settled(CUresult result, bool managed, CUstream stream, bool async)
{
	return !result && managed && !async ? cuStreamSynchronize(stream) : result;
}

static CUresult copy_sides(const struct side *to, const struct side *from, size_t bytes,
			   CUstream stream, bool async)
{
	uint64_t dst = to->address, src = from->address;
	CUresult result;

	if (to->device && from->device)
		return copy_on_device(to, from, bytes, stream);
	if (to->device != from->device && async && capture_of(stream))
		return copy_captured(to->device ? OP_CopyHtoD : OP_CopyDtoH, to->device ? dst : src,
				     to->device ? src : dst, bytes, stream);
	if (to->device)
		return host_to_device(to, from, bytes, stream, async);
	if (from->device)
		return device_to_host(to, from, bytes, stream, async);
	/* From host to host: after the stream's work, which may write the source. */
	result = cuStreamSynchronize(stream);
	if (!result)
		memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	return result;
}

CUresult copy_bytes(uint64_t dst, int dst_hint, uint64_t src, int src_hint, size_t bytes,
		    CUstream stream, bool async)
{
	struct side to, from;
	CUresult result;

	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!bytes)
		return channel_error(true);
	if (!dst || !src || dst + bytes < dst || src + bytes < src)
		return capture_refuse(stream, CUDA_ERROR_INVALID_VALUE);
	result = side_find(dst, bytes, dst_hint, &to);
	if (!result)
		result = side_find(src, bytes, src_hint, &from);
	if (result)
		return capture_refuse(stream, result);
	return WATCH(copy_settled(copy_sides(&to, &from, bytes, stream, async),
				  to.managed || from.managed, stream, async),
		     .kind = PARACUDA_COPY, .stream = stream, .bytes = bytes,
		     .from = side_memory(&from), .to = side_memory(&to));
}
