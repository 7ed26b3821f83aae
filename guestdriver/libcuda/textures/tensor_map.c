/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps are encoded by the host's driver: their layout is its own. Device addresses are the
 * same in guest and host.
 */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"

#define RANK_SPACE 2 /* dimensions of a tensor that aren't of pixels */

static CUresult begin(struct paracuda_tensor_parameters *p, int type, uint32_t rank,
		      const void *address, const uint64_t *dim, const uint64_t *stride,
		      const uint32_t *element)
{
	memset(p, 0, sizeof(*p));
	if (!rank || rank > PARACUDA_TENSOR_RANK_MAX || !dim || (rank > 1 && !stride) || !element)
		return CUDA_ERROR_INVALID_VALUE;
	p->type = (uint32_t)type;
	p->rank = rank;
	p->address = (uintptr_t)address;
	memcpy(p->dim, dim, rank * sizeof(*dim));
	if (rank > 1)
		memcpy(p->stride, stride, (rank - 1) * sizeof(*stride));
	for (uint32_t i = 0; i < rank; i++)
		p->element[i] = element[i];
	return CUDA_SUCCESS;
}

static void modes(struct paracuda_tensor_parameters *p, int interleave, int swizzle, int promotion,
		  int fill)
{
	p->interleave = (uint32_t)interleave;
	p->swizzle = (uint32_t)swizzle;
	p->promotion = (uint32_t)promotion;
	p->fill = (uint32_t)fill;
}

static CUresult encode(int kind, CUtensorMap *map, const struct paracuda_tensor_parameters *p)
{
	CUtensorMap made;
	CUresult result;

	if (!map || (uintptr_t)map % 64)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_TensorMapEncode((uint64_t)kind, p, sizeof(*p), &made, sizeof(made));
	if (!result)
		*map = made;
	return result;
}

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
				       cuuint32_t tensorRank, void *globalAddress,
				       const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
				       const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
				       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
				       CUtensorMapL2promotion l2Promotion,
				       CUtensorMapFloatOOBfill oobFill)
{
	struct paracuda_tensor_parameters p;
	CUresult result;

	ENTER();
	result = begin(&p, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
		       elementStrides);
	if (result || !boxDim)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < tensorRank; i++)
		p.box[i] = boxDim[i];
	modes(&p, interleave, swizzle, l2Promotion, oobFill);
	return encode(PARACUDA_TENSOR_MAP_KIND_TILED, tensorMap, &p);
}

EXPORT CUresult cuTensorMapEncodeIm2col(
	CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
	void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
	const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
	cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	struct paracuda_tensor_parameters p;
	CUresult result;

	ENTER();
	result = begin(&p, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
		       elementStrides);
	if (result || tensorRank <= RANK_SPACE || !pixelBoxLowerCorner || !pixelBoxUpperCorner)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < tensorRank - RANK_SPACE; i++) {
		p.box[i] = (uint32_t)pixelBoxLowerCorner[i];
		p.upper[i] = (uint32_t)pixelBoxUpperCorner[i];
	}
	p.channels = channelsPerPixel;
	p.pixels = pixelsPerColumn;
	modes(&p, interleave, swizzle, l2Promotion, oobFill);
	return encode(PARACUDA_TENSOR_MAP_KIND_IM2COL, tensorMap, &p);
}

EXPORT CUresult cuTensorMapEncodeIm2colWide(
	CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
	void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
	int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
	cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
	CUtensorMapFloatOOBfill oobFill)
{
	struct paracuda_tensor_parameters p;
	CUresult result;

	ENTER();
	result = begin(&p, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
		       elementStrides);
	if (result)
		return result;
	p.box[0] = (uint32_t)pixelBoxLowerCornerWidth;
	p.upper[0] = (uint32_t)pixelBoxUpperCornerWidth;
	p.channels = channelsPerPixel;
	p.pixels = pixelsPerColumn;
	p.mode = (uint32_t)mode;
	modes(&p, interleave, swizzle, l2Promotion, oobFill);
	return encode(PARACUDA_TENSOR_MAP_KIND_IM2COL_WIDE, tensorMap, &p);
}

EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	struct paracuda_tensor_replacement r = { .address = (uintptr_t)globalAddress };
	struct paracuda_tensor_parameters p;

	_Static_assert(sizeof(r) == sizeof(p) && sizeof(r.map) == sizeof(*tensorMap), "sizes");
	ENTER();
	if (!tensorMap || (uintptr_t)tensorMap % 64)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(r.map, tensorMap, sizeof(r.map));
	memcpy(&p, &r, sizeof(p));
	return encode(PARACUDA_TENSOR_MAP_KIND_REPLACE_ADDRESS, tensorMap, &p);
}
