/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primary contexts: one per device, counted here; the worker sees only the first retain and the
 * last release.
 */
#define _GNU_SOURCE
#include "base/zz_generated_prototypes.h"
#include "context/context.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

/*
 * Serialises the steps below. Recursive: the destructors of context-local storage may come back
 * here.
 */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static CUresult find(CUdevice dev, struct context **c)
{
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*c = context_primary(dev);
	return *c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult result;
	struct context *c;
	uint64_t handle;

	ENTER();
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	result = find(dev, &c);
	if (result)
		return result;
	pthread_mutex_lock(&lock);
	if (!context_alive(c)) {
		result = call_cuDevicePrimaryCtxRetain(&handle, device_host(dev));
		if (!result && !handle)
			result = CUDA_ERROR_UNKNOWN;
		if (!result)
			__atomic_store_n(&c->handle, handle, __ATOMIC_RELEASE);
	}
	if (!result) {
		c->references++;
		*pctx = c;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult release_worker(struct context *c)
{
	return context_retire(c) ?
		       channel_synced(call_cuDevicePrimaryCtxRelease_v2(device_host(c->device))) :
		       CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult result;
	struct context *c;

	ENTER();
	result = find(dev, &c);
	if (result)
		return result;
	pthread_mutex_lock(&lock);
	if (!c->references) {
		pthread_mutex_unlock(&lock);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (--c->references == 0)
		result = release_worker(c);
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult result;
	struct context *c;

	ENTER();
	result = find(dev, &c);
	if (result)
		return result;
	pthread_mutex_lock(&lock);
	c->references = 0;
	if (context_retire(c))
		result = channel_synced(call_cuDevicePrimaryCtxReset_v2(device_host(dev)));
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult result;
	struct context *c;

	ENTER();
	result = find(dev, &c);
	if (result)
		return result;
	if (flags)
		*flags = __atomic_load_n(&c->flags, __ATOMIC_RELAXED);
	if (active)
		*active = context_alive(c);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct context *c;

	ENTER();
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!context_flags_valid(flags) || flags & CU_CTX_MAP_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	c = context_primary(dev);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	__atomic_store_n(&c->flags, flags, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}
