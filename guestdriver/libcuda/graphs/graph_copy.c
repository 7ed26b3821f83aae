/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of graphs: the addresses of their sides. */
#define _GNU_SOURCE
#include "copies/capture_pin.h"
#include "copies/copy.h"
#include "graphs/graph.h"
#include "transport/zz_generated_layouts.h"

/* Where a side of a copy begins, and what it needs to be reached when the graph runs. */
static CUresult side(unsigned type, const void *host, CUdeviceptr device, uint64_t offset,
		     uint64_t span, uint64_t *out)
{
	struct side s;
	CUresult result;

	if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE &&
	    type != CU_MEMORYTYPE_UNIFIED)
		return type == CU_MEMORYTYPE_ARRAY ? CUDA_ERROR_NOT_SUPPORTED :
						     CUDA_ERROR_INVALID_VALUE;
	*out = (type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device) + offset;
	result = side_find(*out, span, type == CU_MEMORYTYPE_DEVICE ? SIDE_DEVICE : SIDE_ANY, &s);
	return result || s.device || s.pinned || s.several ? result : capture_pin_all(*out, span);
}

CUresult graph_copy(const CUDA_MEMCPY3D *c, struct node_memcpy *n)
{
	uint64_t src_pitch = c->srcPitch ? c->srcPitch : c->srcXInBytes + c->WidthInBytes;
	uint64_t dst_pitch = c->dstPitch ? c->dstPitch : c->dstXInBytes + c->WidthInBytes;
	uint64_t src_rows = c->srcHeight ? c->srcHeight : c->srcY + c->Height;
	uint64_t dst_rows = c->dstHeight ? c->dstHeight : c->dstY + c->Height;
	uint64_t src_slice, dst_slice, src_span, dst_span;
	CUresult result;

	if (!c->WidthInBytes || !c->Height || !c->Depth || src_pitch < c->WidthInBytes ||
	    dst_pitch < c->WidthInBytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(src_pitch, src_rows, &src_slice) ||
	    __builtin_mul_overflow(dst_pitch, dst_rows, &dst_slice) ||
	    __builtin_mul_overflow(src_slice, c->Depth, &src_span) ||
	    __builtin_mul_overflow(dst_slice, c->Depth, &dst_span))
		return CUDA_ERROR_INVALID_VALUE;
	src_span = src_slice * (c->Depth - 1) + src_pitch * (c->Height - 1) + c->WidthInBytes;
	dst_span = dst_slice * (c->Depth - 1) + dst_pitch * (c->Height - 1) + c->WidthInBytes;
	result =
		side(c->srcMemoryType, c->srcHost, c->srcDevice,
		     c->srcZ * src_slice + c->srcY * src_pitch + c->srcXInBytes, src_span, &n->src);
	if (!result)
		result = side(c->dstMemoryType, c->dstHost, c->dstDevice,
			      c->dstZ * dst_slice + c->dstY * dst_pitch + c->dstXInBytes, dst_span,
			      &n->dst);
	n->dst_pitch = dst_pitch;
	n->dst_slice = dst_slice;
	n->src_pitch = src_pitch;
	n->src_slice = src_slice;
	n->width = c->WidthInBytes;
	n->height = c->Height;
	n->depth = c->Depth;
	return result;
}
