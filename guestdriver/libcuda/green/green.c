/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts. The CUcontext of a green context is a struct context of its own. Its `base` is
 * the device's primary context, which owns what is made in it, except streams.
 */
#define _GNU_SOURCE
#include "green/green.h"

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"
#include "streams/stream.h"

/* As for cuCtxCreate: accepted, and not passed on. */
#define CONTEXT_DUMPS (CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE)

struct green {
	struct handle handle; /* its context is the primary one */
	struct context *context;
};

static struct green *find(CUgreenCtx g)
{
	return (struct green *)handle_find(HANDLE_GREEN, g);
}

/* Lists a green context that the worker has made, by its own number and that of its context. */
static CUresult enter(uint64_t green, uint64_t context, struct context *base, CUgreenCtx *g)
{
	struct green *record = (struct green *)handle_new(sizeof(*record), 0);
	struct context *c = context_new(base->device, false);
	CUresult result;

	if (record) {
		record->handle.context = base;
		record->context = c;
	}
	result = handle_enter(HANDLE_GREEN, green, (struct handle *)record);
	if (result)
		return result;
	if (!c || !context) {
		handle_forget(HANDLE_GREEN, (void *)(uintptr_t)green);
		return c ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY;
	}
	*g = (CUgreenCtx)(uintptr_t)green;
	c->base = base;
	c->green = *g;
	c->flags = base->flags;
	__atomic_store_n(&c->handle, context, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
				 unsigned int flags)
{
	struct context *base;
	uint64_t green, context;
	CUresult result;

	ENTER();
	if (!phCtx || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	result = cuDevicePrimaryCtxRetain(&base, dev);
	if (result)
		return result;
	result = call_cuGreenCtxCreate(number_of(desc), device_host(dev), flags & ~CONTEXT_DUMPS,
				       &green, &context);
	if (!result) {
		result = enter(green, context, base, phCtx);
		if (result)
			call_cuGreenCtxDestroy(green);
	}
	if (result)
		cuDevicePrimaryCtxRelease_v2(dev);
	return result;
}

EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	struct green *g;
	CUresult result;
	int device;

	ENTER();
	g = find(hCtx);
	if (!g)
		return CUDA_ERROR_INVALID_CONTEXT;
	device = g->context->device;
	context_retire(g->context);
	handle_forget(HANDLE_GREEN, hCtx);
	result = call_cuGreenCtxDestroy(number_of(hCtx));
	return result ? result : cuDevicePrimaryCtxRelease_v2(device);
}

void green_retire_all(struct context *base)
{
	struct context *c;

	while ((c = context_of_base(base))) {
		handle_forget(HANDLE_GREEN, c->green);
		context_retire(c);
	}
}

EXPORT CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct green *g;

	ENTER();
	if (!pContext)
		return CUDA_ERROR_INVALID_VALUE;
	g = find(hCtx);
	if (!g)
		return CUDA_ERROR_INVALID_CONTEXT;
	*pContext = g->context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	struct green *g;

	ENTER();
	if (!greenCtxId)
		return CUDA_ERROR_INVALID_VALUE;
	if (!greenCtx && context_current())
		greenCtx = context_current()->green;
	g = find(greenCtx);
	if (!g)
		return CUDA_ERROR_INVALID_CONTEXT;
	*greenCtxId = g->handle.id;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
				       int priority)
{
	struct green *g;
	uint64_t number;
	CUresult result;

	ENTER();
	if (!phStream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	g = find(greenCtx);
	if (!g)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = call_cuGreenCtxStreamCreate(&number, number_of(greenCtx), flags,
					     (uint64_t)priority);
	if (!result)
		result = stream_add(number, g->context, flags, priority);
	if (!result)
		*phStream = (CUstream)(uintptr_t)number;
	return result;
}

EXPORT CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	ENTER();
	if (!find(hCtx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!handle_known(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	return call_cuGreenCtxRecordEvent(number_of(hCtx), number_of(hEvent));
}

EXPORT CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	ENTER();
	if (!find(hCtx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!handle_known(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	return call_cuGreenCtxWaitEvent(number_of(hCtx), number_of(hEvent));
}

EXPORT CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	CUcontext c;
	CUresult result;

	ENTER_CONTEXT();
	if (!pCtx && !pGreenCtx)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuStreamGetCtx(hStream, &c);
	if (!result && pCtx)
		*pCtx = context_home(c);
	if (!result && pGreenCtx)
		*pGreenCtx = c->green;
	return result;
}

EXPORT CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	CUcontext c;

	if (!phCtx)
		return CUDA_ERROR_INVALID_VALUE;
	return cuStreamGetCtx_v2(hStream, &c, phCtx);
}
