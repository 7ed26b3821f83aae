/* SPDX-License-Identifier: Apache-2.0 */
/* Fills without a stream: those of the default stream. */
#include "zz_generated_prototypes.h"

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return cuMemsetD8Async(dstDevice, uc, N, thread_stream(NULL));
}

EXPORT CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return cuMemsetD16Async(dstDevice, us, N, thread_stream(NULL));
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return cuMemsetD32Async(dstDevice, ui, N, thread_stream(NULL));
}

EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
	return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, thread_stream(NULL));
}

EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
	return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, thread_stream(NULL));
}

EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
	return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, thread_stream(NULL));
}
