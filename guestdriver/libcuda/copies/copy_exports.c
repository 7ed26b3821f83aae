/* SPDX-License-Identifier: Apache-2.0 */
/* The linear copies of the API. */
#define _GNU_SOURCE
#include "copies/copy.h"

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"

static uint64_t at(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	ENTER_CONTEXT();
	return copy_bytes(dst, SIDE_ANY, src, SIDE_ANY, ByteCount, thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	ENTER_CONTEXT();
	return copy_bytes(dst, SIDE_ANY, src, SIDE_ANY, ByteCount, hStream, true);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	ENTER_CONTEXT();
	return copy_bytes(dstDevice, SIDE_DEVICE, at(srcHost), SIDE_ANY, ByteCount,
			  thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
				     CUstream hStream)
{
	ENTER_CONTEXT();
	return copy_bytes(dstDevice, SIDE_DEVICE, at(srcHost), SIDE_ANY, ByteCount, hStream, true);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	ENTER_CONTEXT();
	return copy_bytes(at(dstHost), SIDE_ANY, srcDevice, SIDE_DEVICE, ByteCount,
			  thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
				     CUstream hStream)
{
	ENTER_CONTEXT();
	return copy_bytes(at(dstHost), SIDE_ANY, srcDevice, SIDE_DEVICE, ByteCount, hStream, true);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	ENTER_CONTEXT();
	return copy_bytes(dstDevice, SIDE_DEVICE, srcDevice, SIDE_DEVICE, ByteCount,
			  thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
				     CUstream hStream)
{
	ENTER_CONTEXT();
	return copy_bytes(dstDevice, SIDE_DEVICE, srcDevice, SIDE_DEVICE, ByteCount, hStream, true);
}
