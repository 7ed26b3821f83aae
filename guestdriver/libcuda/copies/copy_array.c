/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies with arrays. The driver copies between arrays and device memory; data on the host goes
 * through device memory that exists for the copy only.
 */
#define _GNU_SOURCE
#include "copies/copy_array.h"

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "copies/copy.h"
#include "streams/stream.h"

static CUresult post(const CUDA_MEMCPY3D *c, CUstream stream)
{
	return call_CopyArray(argument_inline(c, sizeof(*c)), number_of(stream));
}

/*
 * Whether a side is device memory by its address. A source to be read at once doesn't count as such
 * if the host can read it, too.
 */
static bool on_device(uint64_t address, int hint)
{
	struct memory m;

	return memory_find(address, &m) &&
	       (hint == SIDE_AT_ONCE ? memory_on_device(&m) : memory_by_address(&m));
}

/* Says of a side that it is device memory, if its address is. */
static CUresult settle_src(CUDA_MEMCPY3D *c, int source)
{
	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY)
		return CUDA_SUCCESS;
	if (c->srcMemoryType == CU_MEMORYTYPE_HOST)
		c->srcDevice = number_of(c->srcHost);
	c->srcHost = (void *)(uintptr_t)c->srcDevice;
	if (!c->srcDevice || c->srcMemoryType < CU_MEMORYTYPE_HOST ||
	    c->srcMemoryType > CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	c->srcMemoryType =
		on_device(c->srcDevice, source) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	if (!c->srcPitch)
		c->srcPitch = c->srcXInBytes + c->WidthInBytes;
	if (!c->srcHeight)
		c->srcHeight = c->srcY + c->Height;
	return CUDA_SUCCESS;
}

static CUresult settle_dst(CUDA_MEMCPY3D *c)
{
	if (c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return CUDA_SUCCESS;
	if (c->dstMemoryType == CU_MEMORYTYPE_HOST)
		c->dstDevice = number_of(c->dstHost);
	c->dstHost = (void *)(uintptr_t)c->dstDevice;
	if (!c->dstDevice || c->dstMemoryType < CU_MEMORYTYPE_HOST ||
	    c->dstMemoryType > CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	c->dstMemoryType =
		on_device(c->dstDevice, SIDE_ANY) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	if (!c->dstPitch)
		c->dstPitch = c->dstXInBytes + c->WidthInBytes;
	if (!c->dstHeight)
		c->dstHeight = c->dstY + c->Height;
	return CUDA_SUCCESS;
}

static void tight_src(CUDA_MEMCPY3D *c, CUdeviceptr memory)
{
	c->srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c->srcXInBytes = c->srcY = c->srcZ = 0;
	c->srcDevice = memory;
	c->srcPitch = c->WidthInBytes;
	c->srcHeight = c->Height;
}

static void tight_dst(CUDA_MEMCPY3D *c, CUdeviceptr memory)
{
	c->dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c->dstXInBytes = c->dstY = c->dstZ = 0;
	c->dstDevice = memory;
	c->dstPitch = c->WidthInBytes;
	c->dstHeight = c->Height;
}

/* Copies through device memory. */
static CUresult staged(const CUDA_MEMCPY3D *c, bool in, int source, CUstream stream, bool async)
{
	CUDA_MEMCPY3D host = *c, array = *c;
	CUdeviceptr memory;
	CUresult result, freed;
	size_t bytes;

	if (__builtin_mul_overflow(c->WidthInBytes, c->Height, &bytes) ||
	    __builtin_mul_overflow(bytes, c->Depth, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = cuMemAllocAsync(&memory, bytes, stream);
	if (result)
		return result;
	if (in) {
		tight_dst(&host, memory);
		tight_src(&array, memory);
		result = copy_memory(&host, source, stream, true);
		if (!result)
			result = post(&array, stream);
	} else {
		tight_dst(&array, memory);
		tight_src(&host, memory);
		result = post(&array, stream);
		if (!result)
			result = copy_memory(&host, SIDE_ANY, stream, true);
	}
	freed = cuMemFreeAsync(memory, stream);
	if (!result)
		result = freed;
	if (!result && !async)
		result = cuStreamSynchronize(stream);
	return result;
}

CUresult copy_with_array(const CUDA_MEMCPY3D *copy, int source, CUstream stream, bool async)
{
	CUDA_MEMCPY3D c = *copy;
	CUresult result;

	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!c.WidthInBytes || !c.Height || !c.Depth)
		return channel_error(true);
	result = settle_src(&c, source);
	if (!result)
		result = settle_dst(&c);
	if (result)
		return result;
	if (c.srcMemoryType == CU_MEMORYTYPE_HOST)
		return staged(&c, true, source, stream, async);
	if (c.dstMemoryType == CU_MEMORYTYPE_HOST)
		return staged(&c, false, source, stream, async);
	result = post(&c, stream);
	return result || async ? result : cuStreamSynchronize(stream);
}

static CUresult row(CUDA_MEMCPY3D *c, size_t bytes, CUstream stream, bool async)
{
	c->WidthInBytes = bytes;
	c->Height = c->Depth = 1;
	return copy_with_array(c, SIDE_ANY, stream, async);
}

EXPORT CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
				size_t srcOffset, size_t ByteCount)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = srcArray,
		.srcXInBytes = srcOffset,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = dstArray,
		.dstXInBytes = dstOffset,
	};

	ENTER_CONTEXT();
	return row(&c, ByteCount, thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
				size_t ByteCount)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = srcArray,
		.srcXInBytes = srcOffset,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = dstDevice,
	};

	ENTER_CONTEXT();
	return row(&c, ByteCount, thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
				size_t ByteCount)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = srcDevice,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = dstArray,
		.dstXInBytes = dstOffset,
	};

	ENTER_CONTEXT();
	return row(&c, ByteCount, thread_stream(NULL), false);
}

static CUresult from_array(void *host, CUarray array, size_t offset, size_t bytes, CUstream stream,
			   bool async)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = array,
		.srcXInBytes = offset,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = host,
	};

	return row(&c, bytes, stream, async);
}

static CUresult to_array(CUarray array, size_t offset, const void *host, size_t bytes,
			 CUstream stream, bool async)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.dstXInBytes = offset,
	};

	return row(&c, bytes, stream, async);
}

EXPORT CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	ENTER_CONTEXT();
	return from_array(dstHost, srcArray, srcOffset, ByteCount, thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
				     size_t ByteCount, CUstream hStream)
{
	ENTER_CONTEXT();
	return from_array(dstHost, srcArray, srcOffset, ByteCount, hStream, true);
}

EXPORT CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
				size_t ByteCount)
{
	ENTER_CONTEXT();
	return to_array(dstArray, dstOffset, srcHost, ByteCount, thread_stream(NULL), false);
}

EXPORT CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
				     size_t ByteCount, CUstream hStream)
{
	ENTER_CONTEXT();
	return to_array(dstArray, dstOffset, srcHost, ByteCount, hStream, true);
}
