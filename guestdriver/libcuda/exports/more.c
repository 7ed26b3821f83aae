/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that are rarely used. */
#define _GNU_SOURCE
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

#define POINTER_SYNC_MEMOPS 6
#define POINTER_LAST 21
#define AFFINITY_TYPES 1
#define ATOMIC_LAST 12

enum { FLUSH_CURRENT = 0, FLUSH_TO_OWNER = 100, FLUSH_TO_ALL = 200 };

/* The context that a function names; NULL is the current one. */
static CUresult context_number(CUcontext ctx, uint64_t *number)
{
	if (!ctx)
		ctx = context_current();
	if (!ctx || !context_known(ctx) || !context_alive(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	*number = ctx->handle;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	uint64_t number;
	CUresult result;

	ENTER_CONTEXT();
	if (!handle_known(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	result = context_number(hCtx, &number);
	return result ? result : call_cuCtxRecordEvent(number, number_of(hEvent));
}

EXPORT CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	uint64_t number;
	CUresult result;

	ENTER_CONTEXT();
	if (!handle_known(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	result = context_number(hCtx, &number);
	return result ? result : call_cuCtxWaitEvent(number, number_of(hEvent));
}

/* Only a server for several processes limits the multiprocessors of a context; of types that aren't there there is no support. */
EXPORT CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	(void)type;
	ENTER();
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	ENTER_CONTEXT();
	if (!pExecAffinity || type < 0 || type >= AFFINITY_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* No device here has one address for a function on all of them. */
EXPORT CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	ENTER();
	if (!fptr || !symbol)
		return CUDA_ERROR_INVALID_VALUE;
	return handle_known(HANDLE_LIB, library) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

/* No other device writes to the memory of these, as the attribute about flushing says. */
EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
	ENTER_CONTEXT();
	if (target != FLUSH_CURRENT || (scope != FLUSH_TO_OWNER && scope != FLUSH_TO_ALL))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Which atomic operations a link has: none is promised. */
static CUresult no_atomics(unsigned int *capabilities, const CUatomicOperation *operations, unsigned int count)
{
	if (!capabilities || !operations || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		if (operations[i] < 0 || operations[i] > ATOMIC_LAST)
			return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		capabilities[i] = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
						  unsigned int count, CUdevice dev)
{
	ENTER();
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return no_atomics(capabilities, operations, count);
}

EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
						 unsigned int count, CUdevice srcDevice, CUdevice dstDevice)
{
	ENTER();
	if (!device_valid(srcDevice) || !device_valid(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	return no_atomics(capabilities, operations, count);
}

/* Copies here never return before they should: it is remembered for those who ask. */
EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	unsigned int synced;
	struct memory m;

	ENTER_CONTEXT();
	if (!value || attribute <= 0 || attribute > POINTER_LAST || !memory_find(ptr, &m))
		return CUDA_ERROR_INVALID_VALUE;
	if (m.kind == MEMORY_MAPPED)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (attribute != POINTER_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&synced, value, sizeof(synced));
	memory_sync(ptr, synced);
	return CUDA_SUCCESS;
}

static CUresult one_device(const CUDA_MEMCPY3D_PEER *c, CUDA_MEMCPY3D *plain)
{
	const struct context *src = c->reserved0, *dst = c->reserved1;

	if ((src && !context_known(src)) || (dst && !context_known(dst)))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (src && dst && src->device != dst->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	*plain = *c;
	plain->reserved0 = plain->reserved1 = NULL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	CUDA_MEMCPY3D plain;
	CUresult result;

	ENTER_CONTEXT();
	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	result = one_device(pCopy, &plain);
	return result ? result : cuMemcpy3D_v2(&plain);
}

EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D plain;
	CUresult result;

	ENTER_CONTEXT();
	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	result = one_device(pCopy, &plain);
	return result ? result : cuMemcpy3DAsync_v2(&plain, hStream);
}
