/* SPDX-License-Identifier: Apache-2.0 */
/* Fills. Those without a stream go to the default stream. */
#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"

/*
 * The end of a fill without a stream: it is done when it returns, unless only the device can see
 * the memory.
 */
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

EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
				size_t Width, size_t Height)
{
	return settled(
		cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, thread_stream(NULL)),
		dstDevice);
}

EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
				 size_t Width, size_t Height)
{
	return settled(
		cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, thread_stream(NULL)),
		dstDevice);
}

EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
				 size_t Width, size_t Height)
{
	return settled(
		cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, thread_stream(NULL)),
		dstDevice);
}
