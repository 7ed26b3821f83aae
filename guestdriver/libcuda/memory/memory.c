/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory. */
#define _GNU_SOURCE
#include "addresses/memory_map.h"

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"
#include "managed/managed.h"
#include "mapping/vmm.h"
#include "streams/capture.h"

#define PITCH_ALIGN 512

static CUresult enter(uint64_t base, uint64_t bytes)
{
	struct context *c = context_owner();
	struct memory m = {
		.base = base,
		.bytes = bytes,
		.kind = MEMORY_DEVICE,
		.device = c->device,
		.context = c,
	};

	/*
	 * The worker may say anything, but an address of this process's own memory is not the
	 * device's.
	 */
	if (!base || base + bytes < base)
		return CUDA_ERROR_UNKNOWN;
	return memory_enter(&m) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	uint64_t base;
	CUresult result;

	ENTER_CONTEXT();
	ENTER_SAFE();
	if (!dptr || !bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuMemAlloc_v2(&base, bytesize);
	if (!result)
		result = enter(base, bytesize);
	if (!result)
		*dptr = base;
	return result;
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				   size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch, bytes;
	CUresult result;

	ENTER_CONTEXT();
	if (!dptr || !pPitch || !WidthInBytes || !Height)
		return CUDA_ERROR_INVALID_VALUE;
	if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_add_overflow(WidthInBytes, PITCH_ALIGN - 1, &pitch))
		return CUDA_ERROR_INVALID_VALUE;
	pitch &= ~(size_t)(PITCH_ALIGN - 1);
	if (__builtin_mul_overflow(pitch, Height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuMemAlloc_v2(dptr, bytes);
	if (!result)
		*pPitch = pitch;
	return result;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct memory m;
	CUresult result;

	ENTER_CONTEXT();
	ENTER_SAFE();
	if (!dptr)
		return CUDA_SUCCESS;
	if (memory_kind_at(dptr, &m) == MEMORY_MANAGED)
		return channel_synced(managed_free(dptr));
	/*
	 * It is forgotten first, since the worker may at once give the same address to another
	 * thread.
	 */
	if (!memory_take(dptr, MEMORY_DEVICE, &m)) {
		result = channel_error(true);
		return result ? result : CUDA_ERROR_INVALID_VALUE;
	}
	return channel_synced(call_cuMemFree_v2(dptr));
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct memory m;

	ENTER_CONTEXT();
	if (!pbase && !psize)
		return CUDA_SUCCESS;
	if (!memory_find(dptr, &m) || (m.kind == MEMORY_MAPPED &&
				       vmm_access(dptr, m.device) <= CU_MEM_ACCESS_FLAGS_PROT_NONE))
		return CUDA_ERROR_NOT_FOUND;
	vmm_narrow(&m, dptr);
	if (pbase)
		*pbase = m.base;
	if (psize)
		*psize = m.bytes;
	return CUDA_SUCCESS;
}
