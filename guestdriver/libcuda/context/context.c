/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "context/context.h"

#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"
#include "hostmemory/host_memory.h"
#include "sharing/ipc.h"
#include "streams/capture.h"
#include "transport/channel.h"

#define CONTEXT_FLAGS_KNOWN 0xffu
#define CONTEXT_DUMP 0x20u	/* dumps of the GPU's memory */
#define CONTEXT_DUMPS 0x60u	/* and such that a user triggers */

pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *all;
static struct context *primaries[DEVICES_MAX];
static uint64_t last_id;

struct context *context_current(void)
{
	struct thread *t = thread_peek();

	return t->depth ? t->stack[t->depth - 1] : NULL;
}

bool context_alive(const struct context *c)
{
	return __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE) != 0;
}

uint64_t context_handle(void)
{
	struct context *c = context_current();

	return c ? __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE) : 0;
}

CUresult context_check(void)
{
	struct context *c = context_current();

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* A context that a kernel has killed answers everything with that. */
	return context_alive(c) ? channel_dead() : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool context_known(const struct context *c)
{
	for (struct context *x = __atomic_load_n(&all, __ATOMIC_ACQUIRE); x; x = x->next)
		if (x == c)
			return true;
	return false;
}

struct context *context_of_base(const struct context *base)
{
	for (struct context *x = __atomic_load_n(&all, __ATOMIC_ACQUIRE); x; x = x->next)
		if (x->base == base && context_alive(x))
			return x;
	return NULL;
}

struct context *context_new(int device, bool primary)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->device = device;
	c->primary = primary;
	pthread_mutex_lock(&context_lock);
	c->id = ++last_id;
	c->next = all;
	__atomic_store_n(&all, c, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&context_lock);
	return c;
}

struct context *context_primary(int device)
{
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	struct context *c;

	pthread_mutex_lock(&making);
	c = primaries[device];
	if (!c)
		c = primaries[device] = context_new(device, true);
	pthread_mutex_unlock(&making);
	return c;
}

static CUresult push(struct context *c)
{
	struct thread *t = thread_self();

	if (t->depth == t->room) {
		unsigned room = t->room ? 2 * t->room : 8;
		struct context **stack = realloc(t->stack, room * sizeof(*stack));

		if (!stack)
			return CUDA_ERROR_OUT_OF_MEMORY;
		t->stack = stack;
		t->room = room;
	}
	t->stack[t->depth++] = c;
	return CUDA_SUCCESS;
}

CUresult context_set(struct context *c)
{
	struct thread *t = thread_peek();

	if (!c) {
		if (t->depth)
			t->depth--;
		return CUDA_SUCCESS;
	}
	if (!t->depth)
		return push(c);
	t->stack[t->depth - 1] = c;
	return CUDA_SUCCESS;
}

uint64_t context_retire(struct context *c)
{
	uint64_t handle;

	green_retire_all(c);
	storage_destroy(c);
	if (context_alive(c))
		host_memory_forget_context(c);
	handle = __atomic_exchange_n(&c->handle, 0, __ATOMIC_ACQ_REL);
	handle_forget_context(c);
	ipc_forget_context(c);
	memory_forget_context(c);
	return handle;
}

/* NULL stands for the current context where a function says so. */
static CUresult resolve(CUcontext ctx, struct context **c)
{
	*c = ctx ? ctx : context_current();
	if (!*c || !context_known(*c))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_alive(*c) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool context_flags_valid(unsigned flags)
{
	unsigned schedule = flags & 7;

	return !(flags & ~CONTEXT_FLAGS_KNOWN) && !(schedule & (schedule - 1));
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct context *c;
	uint64_t handle;
	CUresult result;

	ENTER();
	if (!pctx || !context_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	/* Dumps would be files of the host's: what asks for them is told, as natively, and not passed on. */
	if (flags & CONTEXT_DUMPS)
		flags = (flags & ~CONTEXT_DUMPS) | CONTEXT_DUMP;
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
	result = push(c);
	if (result)
		return result;
	*pctx = c;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
			       CUdevice dev)
{
	ENTER();
	if (numParams && paramsArray)
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuCtxCreate_v2(pctx, flags, dev);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	ENTER();
	if (ctxCreateParams && (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
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
	return handle ? channel_synced(call_cuCtxDestroy_v2(handle)) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
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
	} while (!__atomic_compare_exchange_n(&ctx->references, &references, references - 1, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
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
	return push(ctx);
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
	result = resolve(ctx, &c);
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
	flags = (flags & ~CONTEXT_DUMPS) | CONTEXT_MAP_HOST;
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
	result = resolve(ctx, &c);
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
	result = resolve(ctx, &c);
	if (!result)
		*version = 3020;
	return result;
}

EXPORT CUresult cuCtxSynchronize(void)
{
	struct request r;
	CUresult result;

	ENTER_CONTEXT();
	result = capture_everything();
	if (result)
		return result;
	request_init(&r, OP_cuCtxSynchronize);
	r.exact = true;
	return channel_synced(channel_call(&r, NULL, 0));
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	struct context *c;
	struct request r;
	CUresult result;

	ENTER();
	result = capture_everything();
	if (result)
		return result;
	result = resolve(ctx, &c);
	if (result)
		return result;
	request_init(&r, OP_cuCtxSynchronize);
	r.exact = true;
	r.context = c->handle;
	return channel_synced(channel_call(&r, NULL, 0));
}

/* Peers would be other devices of this guest: there is no path between them. */
EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	ENTER_CONTEXT();
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!peerContext || !context_known(peerContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	ENTER_CONTEXT();
	if (!peerContext || !context_known(peerContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
