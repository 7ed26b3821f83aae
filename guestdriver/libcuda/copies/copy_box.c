/* SPDX-License-Identifier: Apache-2.0 */
/* Two- and three-dimensional copies of memory. */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "copies/copy.h"
#include "streams/activity.h"
#include "streams/capture.h"
#include "streams/stream.h"
#include "transport/bulk.h"

/*
 * Up to this size the host side of a box is pinned as a whole; larger boxes are cut into layers and
 * rows.
 */
#define SPAN_MAX ((uint64_t)32 << 20)

/* Bytes from the first to the end of the last; 0 on overflow. */
static uint64_t span(uint64_t pitch, uint64_t slice, const struct box *b)
{
	uint64_t rows, layers, sum;

	if (__builtin_mul_overflow(pitch, b->height - 1, &rows) ||
	    __builtin_mul_overflow(slice, b->depth - 1, &layers) ||
	    __builtin_add_overflow(rows, layers, &sum) ||
	    __builtin_add_overflow(sum, b->width, &sum))
		return 0;
	return sum;
}

/* The host's side, or the second one on the device. */
struct host_side {
	struct argument memory;
	uint64_t pitch, slice;
};

static void box_request(struct request *r, const struct box *b, const struct side *device,
			uint64_t pitch, uint64_t slice, const struct host_side *h, unsigned kind,
			CUstream stream, unsigned flags)
{
	request_CopyBox(r, &(struct args_CopyBox){
				   .device = device->address,
				   .pitch = pitch,
				   .slice = slice,
				   .host = h->memory,
				   .host_pitch = h->pitch,
				   .host_slice = h->slice,
				   .width = b->width,
				   .height = b->height,
				   .depth = b->depth,
				   .kind = kind,
				   .stream = number_of(stream),
				   .flags = flags,
			   });
	r->payload = b->width * b->height * b->depth;
}

/* Gathers the rows of a box in `tight`, one after another, or scatters them from there. */
static void move_rows(const struct box *b, uint8_t *tight, uint64_t base, uint64_t pitch,
		      uint64_t slice, bool gather)
{
	for (uint64_t z = 0; z < b->depth; z++) {
		for (uint64_t y = 0; y < b->height; y++) {
			uint8_t *row = (uint8_t *)(uintptr_t)(base + z * slice + y * pitch);

			if (gather)
				memcpy(tight, row, b->width);
			else
				memcpy(row, tight, b->width);
			tight += b->width;
		}
	}
}

/* Copies a small box through memory of ours in which its rows follow one another. */
static CUresult box_tight(struct box *b, bool in, CUstream stream)
{
	uint64_t bytes = b->width * b->height * b->depth;
	const struct side *device = in ? &b->dst : &b->src;
	uint64_t bulk = bulk_take(bytes);
	struct host_side h = { argument_bulk(bulk, bytes), b->width, b->width * b->height };
	struct request r;
	CUresult result;

	if (!bulk)
		return CUDA_ERROR_NOT_READY;
	channel_copied(bytes);
	if (in) {
		move_rows(b, channel.arena + bulk, b->src.address, b->src_pitch, b->src_slice,
			  true);
		box_request(&r, b, device, b->dst_pitch, b->dst_slice, &h, PARACUDA_BOX_HTOD,
			    stream, 0);
	} else {
		box_request(&r, b, device, b->src_pitch, b->src_slice, &h, PARACUDA_BOX_DTOH,
			    stream, PARACUDA_COPY_FLAG_BLOCKING);
	}
	result = channel_synced(channel_call(&r, NULL, 0));
	if (!result && !in)
		move_rows(b, channel.arena + bulk, b->dst.address, b->dst_pitch, b->dst_slice,
			  false);
	bulk_give(bulk);
	return result;
}

/* Copies a box whose host side is pinned as one range, unless it is pinned already. */
static CUresult box_pinned(struct box *b, bool in, CUstream stream, bool async)
{
	const struct side *device = in ? &b->dst : &b->src, *host = in ? &b->src : &b->dst;
	uint64_t pitch = in ? b->src_pitch : b->dst_pitch, slice = in ? b->src_slice : b->dst_slice;
	struct host_side h = { .pitch = pitch, .slice = slice };
	unsigned flags = in ? 0 : PARACUDA_COPY_FLAG_BLOCKING;
	uint64_t bytes = span(pitch, slice, b);
	struct request r;

	if (host->pinned) {
		h.memory = argument_map(host->map, host->offset, bytes);
		flags = async ? 0 : PARACUDA_COPY_FLAG_BLOCKING;
	} else {
		uint32_t map;
		CUresult result = map_memory(
			(void *)(uintptr_t)host->address, bytes,
			PARACUDA_MAP_FLAG_ONESHOT | (in ? 0 : PARACUDA_MAP_FLAG_WRITE), &map);

		if (result)
			return result;
		h.memory = argument_map(map, 0, bytes);
		h.memory.pinned = true;
	}
	box_request(&r, b, device, in ? b->dst_pitch : b->src_pitch,
		    in ? b->dst_slice : b->src_slice, &h,
		    in ? PARACUDA_BOX_HTOD : PARACUDA_BOX_DTOH, stream, flags);
	if (host->pinned && async)
		return copy_send(&r, device->unknown);
	return channel_synced(channel_call(&r, NULL, 0));
}

static CUresult box_host(struct box *b, bool in, CUstream stream, bool async);

/* Cuts a box in two along its longest loop and copies the halves; a single row is a linear copy. */
static CUresult box_halves(struct box *b, bool in, CUstream stream, bool async)
{
	struct box half = *b;
	CUresult result;

	if (b->depth == 1 && b->height == 1)
		return copy_bytes(b->dst.address, in ? SIDE_DEVICE : SIDE_ANY, b->src.address,
				  b->src.at_once ? SIDE_AT_ONCE :
				  in		 ? SIDE_ANY :
						   SIDE_DEVICE,
				  b->width, stream, async);
	if (b->depth > 1)
		half.depth /= 2;
	else
		half.height /= 2;
	result = box_host(&half, in, stream, async);
	if (result)
		return result;
	half = *b;
	if (b->depth > 1) {
		uint64_t done = b->depth / 2;

		half.depth -= done;
		half.dst.address += done * b->dst_slice;
		half.src.address += done * b->src_slice;
	} else {
		uint64_t done = b->height / 2;

		half.height -= done;
		half.dst.address += done * b->dst_pitch;
		half.src.address += done * b->src_pitch;
	}
	if (half.dst.pinned)
		half.dst.offset += half.dst.address - b->dst.address;
	if (half.src.pinned)
		half.src.offset += half.src.address - b->src.address;
	return box_host(&half, in, stream, async);
}

static CUresult box_host(struct box *b, bool in, CUstream stream, bool async)
{
	const struct side *host = in ? &b->src : &b->dst;
	uint64_t bytes = b->width * b->height * b->depth;
	CUresult result = CUDA_ERROR_NOT_READY;

	if (host->pinned)
		return box_pinned(b, in, stream, async);
	if (async && capture_of(stream))
		return box_halves(b, in, stream, async); /* down to rows */
	if (bytes <= (channel_maps() ? channel_inline_limit() : bulk_limit()))
		result = box_tight(b, in, stream);
	if (result == CUDA_ERROR_NOT_READY && channel_maps() &&
	    span(in ? b->src_pitch : b->dst_pitch, in ? b->src_slice : b->dst_slice, b) <= SPAN_MAX)
		result = box_pinned(b, in, stream, async);
	return result == CUDA_ERROR_NOT_READY ? box_halves(b, in, stream, async) : result;
}

static CUresult copy_sides(struct box *b, CUstream stream, bool async)
{
	struct request r;
	CUresult result;

	if (b->dst.device && b->src.device) {
		struct host_side second = { { .value = b->src.address },
					    b->src_pitch,
					    b->src_slice };

		box_request(&r, b, &b->dst, b->dst_pitch, b->dst_slice, &second, PARACUDA_BOX_DTOD,
			    stream, 0);
		return copy_send(&r, b->dst.unknown || b->src.unknown);
	}
	if (b->dst.device)
		return box_host(b, true, stream, async);
	if (b->src.device)
		return box_host(b, false, stream, async);
	result = cuStreamSynchronize(stream);
	for (uint64_t z = 0; !result && z < b->depth; z++)
		for (uint64_t y = 0; y < b->height; y++)
			memmove((void *)(uintptr_t)(b->dst.address + z * b->dst_slice +
						    y * b->dst_pitch),
				(void *)(uintptr_t)(b->src.address + z * b->src_slice +
						    y * b->src_pitch),
				b->width);
	return result;
}

CUresult copy_box(struct box *b, CUstream stream, bool async)
{
	return copy_settled(copy_sides(b, stream, async), b->dst.managed || b->src.managed, stream,
			    async);
}

/* One side of a copy descriptor: where its first row begins. */
static CUresult resolve(unsigned type, const void *host, CUdeviceptr device, uint64_t offset,
			uint64_t bytes, int hint, struct side *s)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		if (!host)
			return CUDA_ERROR_INVALID_VALUE;
		return side_find((uint64_t)(uintptr_t)host + offset, bytes, hint, s);
	case CU_MEMORYTYPE_DEVICE:
		return device ? side_find(device + offset, bytes, SIDE_DEVICE, s) :
				CUDA_ERROR_INVALID_VALUE;
	case CU_MEMORYTYPE_UNIFIED:
		return device ? side_find(device + offset, bytes, hint, s) :
				CUDA_ERROR_INVALID_VALUE;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult copy_memory(const CUDA_MEMCPY3D *c, int source, CUstream stream, bool async)
{
	struct box b = { .width = c->WidthInBytes, .height = c->Height, .depth = c->Depth };
	uint64_t src_span, dst_span;
	CUresult result;

	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!b.width || !b.height || !b.depth)
		return channel_error(true);
	b.src_pitch = c->srcPitch ? c->srcPitch : c->srcXInBytes + b.width;
	b.dst_pitch = c->dstPitch ? c->dstPitch : c->dstXInBytes + b.width;
	if (b.src_pitch < c->srcXInBytes + b.width || b.dst_pitch < c->dstXInBytes + b.width ||
	    (c->srcHeight && c->srcHeight < b.height) || (c->dstHeight && c->dstHeight < b.height))
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(b.src_pitch, c->srcHeight ? c->srcHeight : c->srcY + b.height,
				   &b.src_slice) ||
	    __builtin_mul_overflow(b.dst_pitch, c->dstHeight ? c->dstHeight : c->dstY + b.height,
				   &b.dst_slice))
		return CUDA_ERROR_INVALID_VALUE;
	src_span = span(b.src_pitch, b.src_slice, &b);
	dst_span = span(b.dst_pitch, b.dst_slice, &b);
	if (!src_span || !dst_span || b.width > SIZE_MAX / b.height / b.depth)
		return CUDA_ERROR_INVALID_VALUE;
	result = resolve(c->srcMemoryType, c->srcHost, c->srcDevice,
			 c->srcZ * b.src_slice + c->srcY * b.src_pitch + c->srcXInBytes, src_span,
			 source, &b.src);
	if (!result)
		result = resolve(c->dstMemoryType, c->dstHost, c->dstDevice,
				 c->dstZ * b.dst_slice + c->dstY * b.dst_pitch + c->dstXInBytes,
				 dst_span, SIDE_ANY, &b.dst);
	if (result)
		return result;
	return WATCH(copy_box(&b, stream, async), .kind = PARACUDA_COPY, .stream = stream,
		     .bytes = b.width * b.height * b.depth, .from = side_memory(&b.src),
		     .to = side_memory(&b.dst));
}
