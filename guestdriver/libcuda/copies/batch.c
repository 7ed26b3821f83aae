/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of copies, which are copied one by one. */
#define _GNU_SOURCE
#include <stdbool.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "copies/copy.h"
#include "streams/stream.h"

/* When a copy reads its source (CUmemcpySrcAccessOrder). */

static bool order_valid(int order)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/*
 * Where any order is allowed, stream order is right, too. What only the device can read is always
 * read in stream order.
 */
static int source_of(int order)
{
	return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? SIDE_AT_ONCE : SIDE_ANY;
}

/* Whether each attribute is valid, and holds for copies after those of the previous one. */
static bool attributes_valid(const CUmemcpyAttributes *attrs, const size_t *first, size_t n,
			     size_t count)
{
	for (size_t i = 0; i < n; i++)
		if (!order_valid(attrs[i].srcAccessOrder) || first[i] >= count ||
		    (i ? first[i] <= first[i - 1] : first[i] != 0))
			return false;
	return true;
}

EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				      size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
				      size_t numAttrs, CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;
	size_t a = 0;

	ENTER_CONTEXT();
	if (!dsts || !srcs || !sizes || !count || !attrs || !attrsIdxs || !numAttrs ||
	    numAttrs > count || !attributes_valid(attrs, attrsIdxs, numAttrs, count))
		return CUDA_ERROR_INVALID_VALUE;
	if (!hStream || number_of(hStream) == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_HANDLE;
	for (size_t i = 0; !result && i < count; i++) {
		if (a + 1 < numAttrs && attrsIdxs[a + 1] == i)
			a++;
		result = copy_bytes(dsts[i], SIDE_ANY, srcs[i], source_of(attrs[a].srcAccessOrder),
				    sizes[i], hStream, true);
	}
	return result;
}

/* The size of an element of an array (CUarray_format); 0 if its format has no fixed size. */
static size_t format_bytes(int format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

/* The size of an operand's elements; 0 if the other operand determines it. */
static CUresult element(const CUmemcpy3DOperand *o, size_t *bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult result;

	*bytes = 0;
	if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
		return CUDA_SUCCESS;
	if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuArray3DGetDescriptor_v2(&d, o->op.array.array);
	if (result)
		return result;
	*bytes = format_bytes(d.Format) * d.NumChannels;
	return *bytes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* One side of a copy, in bytes. */
struct place {
	uint32_t type;
	CUdeviceptr device;
	void *array;
	size_t x, y, z, pitch, height;
};

static CUresult settle(const CUmemcpy3DOperand *o, const CUextent3D *extent, size_t bytes,
		       struct place *s)
{
	*s = (struct place){ 0 };
	if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		s->type = CU_MEMORYTYPE_ARRAY;
		s->array = o->op.array.array;
		s->x = o->op.array.offset.x * bytes;
		s->y = o->op.array.offset.y;
		s->z = o->op.array.offset.z;
		return CUDA_SUCCESS;
	}
	s->type = CU_MEMORYTYPE_UNIFIED;
	s->device = o->op.ptr.ptr;
	s->pitch = (o->op.ptr.rowLength ? o->op.ptr.rowLength : extent->width) * bytes;
	s->height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : extent->height;
	if (!s->device || s->pitch < extent->width * bytes || s->height < extent->height)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Makes an operation of a batch a single copy. */
static CUresult describe(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *c)
{
	size_t src_bytes, dst_bytes, bytes;
	struct place src = { 0 }, dst = { 0 };
	CUresult result;

	if (!order_valid(op->srcAccessOrder))
		return CUDA_ERROR_INVALID_VALUE;
	if (!op->extent.width || !op->extent.height || !op->extent.depth)
		return CUDA_ERROR_INVALID_VALUE;
	result = element(&op->src, &src_bytes);
	if (!result)
		result = element(&op->dst, &dst_bytes);
	if (result)
		return result;
	if (src_bytes && dst_bytes && src_bytes != dst_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = src_bytes ? src_bytes : dst_bytes ? dst_bytes : 1;
	result = settle(&op->src, &op->extent, bytes, &src);
	if (!result)
		result = settle(&op->dst, &op->extent, bytes, &dst);
	*c = (CUDA_MEMCPY3D){
		.srcMemoryType = src.type,
		.srcDevice = src.device,
		.srcArray = src.array,
		.srcXInBytes = src.x,
		.srcY = src.y,
		.srcZ = src.z,
		.srcPitch = src.pitch,
		.srcHeight = src.height,
		.dstMemoryType = dst.type,
		.dstDevice = dst.device,
		.dstArray = dst.array,
		.dstXInBytes = dst.x,
		.dstY = dst.y,
		.dstZ = dst.z,
		.dstPitch = dst.pitch,
		.dstHeight = dst.height,
		.WidthInBytes = op->extent.width * bytes,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};
	return result;
}

EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
					unsigned long long flags, CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;
	CUDA_MEMCPY3D c;

	ENTER_CONTEXT();
	if (!numOps || !opList || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!hStream || number_of(hStream) == CU_STREAM_LEGACY || !stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	for (size_t i = 0; !result && i < numOps; i++)
		result = describe(&opList[i], &c);
	for (size_t i = 0; !result && i < numOps; i++) {
		result = describe(&opList[i], &c);
		if (!result)
			result = copy_3d(&c, source_of(opList[i].srcAccessOrder), hStream, true);
	}
	return result;
}
