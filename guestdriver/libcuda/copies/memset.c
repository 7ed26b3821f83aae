/* SPDX-License-Identifier: Apache-2.0 */
/* Fills. Those without a stream are those of the default stream. */
#include "base/zz_generated_prototypes.h"
#include "copies/copy.h"

CUresult fill_check(uint64_t address, uint64_t width, uint64_t rows, uint64_t pitch, unsigned element)
{
	uint64_t bytes, row;
	struct memory m;

	if (!width || !rows)
		return CUDA_SUCCESS;
	if (address % element || __builtin_mul_overflow(width, element, &row) || (rows > 1 && pitch < row) ||
	    __builtin_mul_overflow(pitch, rows - 1, &bytes) || __builtin_add_overflow(bytes, row, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return memory_find(address, &m) && bytes <= m.bytes - (address - m.base) ? CUDA_SUCCESS :
										    CUDA_ERROR_INVALID_VALUE;
}

enum paracuda_memory fill_target(uint64_t address)
{
	struct memory m;

	return memory_find(address, &m) && !memory_by_address(&m) ? PARACUDA_PINNED : PARACUDA_DEVICE;
}

/* The end of a fill without a stream: it is done when it returns, unless only the device can see the memory. */
static CUresult settled(CUresult result, uint64_t address)
{
	struct memory m;

	if (result || !memory_find(address, &m) || memory_on_device(&m))
		return result;
	return cuStreamSynchronize(thread_stream(NULL));
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return settled(cuMemsetD8Async(dstDevice, uc, N, thread_stream(NULL)), dstDevice);
}

EXPORT CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return settled(cuMemsetD16Async(dstDevice, us, N, thread_stream(NULL)), dstDevice);
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return settled(cuMemsetD32Async(dstDevice, ui, N, thread_stream(NULL)), dstDevice);
}

EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
	return settled(cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, thread_stream(NULL)), dstDevice);
}

EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
	return settled(cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, thread_stream(NULL)), dstDevice);
}

EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
	return settled(cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, thread_stream(NULL)), dstDevice);
}
