/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "streams/stream.h"

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "streams/capture.h"

CUresult stream_add(uint64_t number, struct context *c, unsigned flags, int priority)
{
	struct handle *h = handle_new(sizeof(*h), 0);

	if (h) {
		h->context = c;
		h->flags = flags;
		h->priority = priority;
	}
	return handle_enter(HANDLE_STREAM, number, h);
}

/* Priorities out of range become the nearest one in it. */
static CUresult clamp(int *priority)
{
	uint64_t least, greatest;
	CUresult result = call_cuCtxGetStreamPriorityRange(&least, &greatest);

	if (!result && *priority > (int)least)
		*priority = (int)least;
	if (!result && *priority < (int)greatest)
		*priority = (int)greatest;
	return result;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!phStream || flags & ~CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	result = priority ? clamp(&priority) : CUDA_SUCCESS;
	if (!result)
		result = call_cuStreamCreateWithPriority(&handle, flags, (uint64_t)priority);
	if (!result)
		result = stream_add(handle, context_current(), flags, priority);
	if (!result)
		*phStream = (CUstream)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return cuStreamCreateWithPriority(phStream, Flags, 0);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream hStream)
{
	ENTER_CONTEXT();
	if (!handle_known(HANDLE_STREAM, hStream))
		return hStream ? capture_refuse(hStream, CUDA_ERROR_INVALID_HANDLE) :
				 CUDA_ERROR_INVALID_HANDLE;
	capture_forget_stream(hStream);
	handle_forget(HANDLE_STREAM, hStream);
	return channel_synced(post_cuStreamDestroy_v2(number_of(hStream)));
}

EXPORT CUresult cuStreamSynchronize(CUstream hStream)
{
	CUresult result;

	ENTER_CONTEXT();
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_question(hStream);
	if (result)
		return result;
	ENTER_SAFE();
	return channel_synced(call_cuStreamSynchronize(number_of(hStream)));
}

#define ENTER_STREAM(stream, out)                         \
	do {                                              \
		ENTER_CONTEXT();                          \
		if (!(out))                               \
			return CUDA_ERROR_INVALID_VALUE;  \
		if (!stream_known(stream))                \
			return CUDA_ERROR_INVALID_HANDLE; \
	} while (0)

EXPORT CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct handle *h;

	CUresult result;

	ENTER_STREAM(hStream, flags);
	h = handle_find(HANDLE_STREAM, hStream);
	result = capture_question(hStream);
	if (!result)
		*flags = h ? h->flags : 0;
	return result;
}

EXPORT CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct handle *h;

	CUresult result;

	ENTER_STREAM(hStream, priority);
	h = handle_find(HANDLE_STREAM, hStream);
	result = capture_usable(hStream);
	if (!result)
		*priority =
			h ? h->priority :
			    context_current()->priority[number_of(hStream) == CU_STREAM_PER_THREAD];
	return result;
}

EXPORT CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct handle *h;

	CUresult result;

	ENTER_STREAM(hStream, streamId);
	h = handle_find(HANDLE_STREAM, hStream);
	result = capture_question(hStream);
	if (result)
		return result;
	*streamId = h ? h->id : hStream ? number_of(hStream) : CU_STREAM_LEGACY;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct handle *h;
	CUresult result;

	ENTER_STREAM(hStream, pctx);
	h = handle_find(HANDLE_STREAM, hStream);
	result = capture_usable(hStream);
	if (!result)
		*pctx = h ? h->context : context_current();
	return result;
}

EXPORT CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	CUcontext c;
	CUresult result;

	ENTER_STREAM(hStream, device);
	result = capture_question(hStream);
	if (result)
		return result;
	cuStreamGetCtx(hStream, &c);
	*device = c->device;
	return CUDA_SUCCESS;
}
