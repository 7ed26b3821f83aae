/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks,
								     CUfunction func, int blockSize,
								     size_t dynamicSMemSize,
								     unsigned int flags)
{
	struct function *f;
	uint64_t blocks;
	CUresult result;

	ENTER_CONTEXT();
	if (!numBlocks || blockSize <= 0 || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	f = function_find(func);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		&blocks, f->number, (uint64_t)blockSize, dynamicSMemSize, flags);
	if (!result)
		*numBlocks = (int)blocks;
	return result;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
							    int blockSize, size_t dynamicSMemSize)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
								    dynamicSMemSize, 0);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
							int numBlocks, int blockSize)
{
	struct function *f;
	uint64_t bytes;
	CUresult result;

	ENTER_CONTEXT();
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	f = function_find(func);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuOccupancyAvailableDynamicSMemPerBlock(
		&bytes, f->number, (uint64_t)numBlocks, (uint64_t)blockSize);
	if (!result)
		*dynamicSmemSize = bytes;
	return result;
}

/* The block size that keeps most threads resident; of equal ones the largest. */
EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
	int *minGridSize, int *blockSize, CUfunction func,
	CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
	unsigned int flags)
{
	int warp, limit, best = 0, best_blocks = 0, function_limit;
	CUdevice dev;
	CUresult result;

	ENTER_CONTEXT();
	if (!minGridSize || !blockSize || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuFuncGetAttribute(&function_limit, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, func);
	if (result)
		return result;
	dev = context_current()->device;
	warp = device_number(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	limit = device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	if (limit > function_limit)
		limit = function_limit;
	if (blockSizeLimit > 0 && limit > blockSizeLimit)
		limit = blockSizeLimit;
	if (warp <= 0)
		warp = 32;
	/* Whole warps, from the largest down; the first try is the limit itself. */
	for (int up = (limit + warp - 1) / warp * warp; up > 0; up -= warp) {
		int size = up < limit ? up : limit, blocks = 0;
		size_t shared = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size) :
							     dynamicSMemSize;

		result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, func, size,
									      shared, flags);
		if (result)
			return result;
		if (blocks * size > best_blocks * best) {
			best = size;
			best_blocks = blocks;
		}
	}
	*blockSize = best;
	*minGridSize = best_blocks * device_number(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
						 CUoccupancyB2DSize blockSizeToDynamicSMemSize,
						 size_t dynamicSMemSize, int blockSizeLimit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
							 blockSizeToDynamicSMemSize,
							 dynamicSMemSize, blockSizeLimit, 0);
}
