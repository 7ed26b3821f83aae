/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/zz_generated_prototypes.h"
#include "context/context.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

/* Dumps of the GPU's memory, made by the driver itself or when a user triggers them. */
#define CONTEXT_DUMPS (CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE)
#define AFFINITY_TYPES 1

enum { FLUSH_CURRENT = 0, FLUSH_TO_OWNER = 100, FLUSH_TO_ALL = 200 };

bool context_flags_valid(unsigned flags)
{
	unsigned schedule = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~CU_CTX_FLAGS_MASK) && !(schedule & (schedule - 1));
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct context *c;
	uint64_t handle;
	CUresult result;

	ENTER();
	if (!pctx || !context_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	/*
	 * Dumps would be files of the host's: the flags can be read back, as natively, and aren't
	 * passed on.
	 */
	if (flags & CONTEXT_DUMPS)
		flags = (flags & ~CONTEXT_DUMPS) | CU_CTX_COREDUMP_ENABLE;
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	c = context_new(dev, false);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->flags = flags;
	result = call_cuCtxCreate_v2(&handle, flags & ~CONTEXT_DUMPS, device_host(dev));
	if (result)
		return result;
	__atomic_store_n(&c->handle, handle, __ATOMIC_RELEASE);
	result = context_push(c);
	if (result)
		return result;
	*pctx = c;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			       unsigned int flags, CUdevice dev)
{
	ENTER();
	if (numParams && paramsArray)
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuCtxCreate_v2(pctx, flags, dev);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
			       unsigned int flags, CUdevice dev)
{
	ENTER();
	if (ctxCreateParams &&
	    (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuCtxCreate_v2(pctx, flags, dev);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	uint64_t handle;

	ENTER();
	if (!ctx || !context_known(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (ctx->primary || ctx->base)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_alive(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	handle = context_retire(ctx);
	if (context_current() == ctx)
		context_set(NULL);
	return handle ? channel_synced(call_cuCtxDestroy_v2(handle)) :
			CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

EXPORT CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct context *c;

	ENTER_CONTEXT();
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	c = context_current();
	if (c->primary || c->base)
		return CUDA_ERROR_NOT_SUPPORTED;
	__atomic_add_fetch(&c->references, 1, __ATOMIC_RELAXED);
	*pctx = c;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	unsigned references;

	ENTER_CONTEXT();
	if (!ctx || ctx != context_current() || ctx->primary || ctx->base)
		return CUDA_ERROR_INVALID_CONTEXT;
	references = __atomic_load_n(&ctx->references, __ATOMIC_RELAXED);
	do {
		if (!references)
			return cuCtxDestroy_v2(ctx);
	} while (!__atomic_compare_exchange_n(&ctx->references, &references, references - 1, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	ENTER();
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = context_current();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	ENTER();
	if (ctx && ctx != context_current() && !context_known(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_set(ctx);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	ENTER();
	if (!ctx || !context_known(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_push(ctx);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct context *c;

	ENTER();
	c = context_current();
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = c;
	return context_set(NULL);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	ENTER();
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = context_current()->device;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct context *c;
	CUresult result;

	ENTER();
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_resolve(ctx, &c);
	if (!result)
		*device = c->device;
	return result;
}

EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	ENTER_CONTEXT();
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = __atomic_load_n(&context_current()->flags, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	ENTER_CONTEXT();
	if (!context_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	flags = (flags & ~CONTEXT_DUMPS) | CU_CTX_MAP_HOST;
	__atomic_store_n(&context_current()->flags, flags, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct context *c;
	CUresult result;

	ENTER();
	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_resolve(ctx, &c);
	if (!result)
		*ctxId = c->id;
	return result;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct context *c;
	CUresult result;

	ENTER();
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_resolve(ctx, &c);
	if (!result)
		*version = 3020;
	return result;
}

/*
 * The worker's handle of a context that the current one is to reach; 0 and an error unless it
 * exists and is another one.
 */
static uint64_t peer_handle(CUcontext peer, CUresult *result)
{
	uint64_t handle = 0;

	*result = CUDA_ERROR_INVALID_CONTEXT;
	if (!peer || !context_known(peer) || peer == context_current())
		return 0;
	handle = __atomic_load_n(&peer->handle, __ATOMIC_ACQUIRE);
	if (handle)
		*result = CUDA_SUCCESS;
	return handle;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	CUresult result;
	uint64_t peer;

	ENTER_CONTEXT();
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (peerContext && peerContext == context_current())
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	peer = peer_handle(peerContext, &result);
	return result ? result : channel_synced(call_cuCtxEnablePeerAccess(peer, Flags));
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	CUresult result;
	uint64_t peer;

	ENTER_CONTEXT();
	peer = peer_handle(peerContext, &result);
	return result ? result : channel_synced(call_cuCtxDisablePeerAccess(peer));
}

EXPORT CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	ENTER_CONTEXT();
	if (!pExecAffinity || type < 0 || type >= AFFINITY_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/*
 * Nothing to flush: no other device writes to the memory of ours, as the attribute about flushing
 * says.
 */
EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
					   CUflushGPUDirectRDMAWritesScope scope)
{
	ENTER_CONTEXT();
	if (target != FLUSH_CURRENT || (scope != FLUSH_TO_OWNER && scope != FLUSH_TO_ALL))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_NOT_SUPPORTED;
}
