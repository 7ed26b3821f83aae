/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "streams/capture.h"
#include "streams/event_ahead.h"
#include "streams/stream.h"

/* A flag of ours: the event was recorded during a capture, and may stand for a point of it. */
#define EVENT_CAPTURED (1u << 31)

EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!phEvent ||
	    Flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	result = event_make(Flags, &handle);
	if (!result)
		result = handle_add(HANDLE_EVENT, handle, Flags, 0);
	if (!result)
		*phEvent = (CUevent)(uintptr_t)handle;
	return result;
}

static unsigned flags_of(const struct handle *event)
{
	return __atomic_load_n(&event->flags, __ATOMIC_RELAXED);
}

/* Notes whether an event that is recorded now may stand for a point in a capture. */
static void note_record(struct handle *event)
{
	if (capture_active())
		__atomic_fetch_or(&event->flags, EVENT_CAPTURED, __ATOMIC_RELAXED);
	else if (flags_of(event) & EVENT_CAPTURED)
		__atomic_fetch_and(&event->flags, ~EVENT_CAPTURED, __ATOMIC_RELAXED);
}

/*
 * Another process may use an interprocess event as soon as the call returns, so the call must be
 * done by then. An event that stands for a point of a capture is invalid after it, and the driver
 * must say so. Calls on other events are delayed.
 */
static CUresult send(const struct request *r, const struct handle *event, unsigned int flags)
{
	/* Only the driver knows whether flags are allowed here. */
	return flags || flags_of(event) & (CU_EVENT_INTERPROCESS | EVENT_CAPTURED) ?
		       channel_call(r, NULL, 0) :
		       channel_post(r);
}

/* Whether an event and a known stream are on the same device, as recording requires. */
static bool of_one_device(const struct handle *event, CUstream stream)
{
	const struct handle *s = number_of(stream) > CU_STREAM_PER_THREAD ?
					 handle_find(HANDLE_STREAM, stream) :
					 NULL;
	const struct context *c = s ? s->context : context_current();

	return !c || !event->context || c->device == event->context->device;
}

EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct handle *event;
	struct request r;

	ENTER_CONTEXT();
	event = handle_find(HANDLE_EVENT, hEvent);
	if (!event || !stream_known(hStream) || !of_one_device(event, hStream))
		return capture_refuse(hStream, CUDA_ERROR_INVALID_HANDLE);
	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return capture_refuse(hStream, CUDA_ERROR_INVALID_VALUE);
	note_record(event);
	request_cuEventRecordWithFlags(&r, number_of(hEvent), number_of(hStream), flags);
	return send(&r, event, flags);
}

/* Waiting for NULL spoils a capture; recording NULL doesn't. */
EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct handle *event;
	struct request r;

	ENTER_CONTEXT();
	if (Flags & ~CU_EVENT_WAIT_EXTERNAL)
		return capture_refuse(hStream, CUDA_ERROR_INVALID_VALUE);
	event = handle_find(HANDLE_EVENT, hEvent);
	if (!event || !stream_known(hStream))
		return capture_spoil(hStream, capture_refuse(hStream, CUDA_ERROR_INVALID_HANDLE));
	request_cuStreamWaitEvent(&r, number_of(hStream), number_of(hEvent), Flags);
	return send(&r, event, Flags);
}

EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return cuEventRecordWithFlags(hEvent, hStream, 0);
}

EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
	CUresult result;

	ENTER_CONTEXT();
	if (!handle_known(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_active() ? call_cuEventQuery(number_of(hEvent)) : CUDA_SUCCESS;
	if (result && result != CUDA_ERROR_NOT_READY)
		return result; /* it stands for a point of a capture */
	ENTER_SAFE();
	return channel_synced(call_cuEventSynchronize(number_of(hEvent)));
}

EXPORT CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct handle *start, *end;
	uint64_t nanoseconds;
	unsigned flags;
	CUresult result;

	ENTER_CONTEXT();
	start = handle_find(HANDLE_EVENT, hStart);
	end = handle_find(HANDLE_EVENT, hEnd);
	if (!pMilliseconds || !start || !end)
		return CUDA_ERROR_INVALID_HANDLE;
	flags = flags_of(start) | flags_of(end);
	if (flags & CU_EVENT_DISABLE_TIMING && !(flags & EVENT_CAPTURED))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_EventElapsed(&nanoseconds, number_of(hStart), number_of(hEnd));
	if (!result)
		*pMilliseconds = (float)((double)(int64_t)nanoseconds / 1e6);
	return result;
}

EXPORT CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

#define MAGIC 0x314550495643u

/*
 * What is in a CUipcEventHandle: the name under which the worker of its process offers the event.
 */
struct content {
	uint64_t magic;
	struct answer_cuIpcGetEventHandle event;
	uint64_t reserved[5];
};
_Static_assert(sizeof(struct content) == sizeof(CUipcEventHandle), "CUipcEventHandle");

EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	struct content c = { .magic = MAGIC };
	struct handle *h;
	CUresult result;

	ENTER_CONTEXT();
	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	h = handle_find(HANDLE_EVENT, event);
	if (!h || !(h->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuIpcGetEventHandle(number_of(event), &c.event);
	if (!result)
		memcpy(pHandle, &c, sizeof(c));
	return result;
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct args_cuIpcOpenEventHandle args;
	struct content c;
	uint64_t number;
	CUresult result;

	ENTER_CONTEXT();
	memcpy(&c, &handle, sizeof(c));
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	if (c.magic != MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	memcpy(args.name, c.event.name, sizeof(args.name));
	result = call_cuIpcOpenEventHandle(&args, &number);
	if (!result)
		result = handle_add(HANDLE_EVENT, number,
				    CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, 0);
	if (!result)
		*phEvent = (CUevent)(uintptr_t)number;
	return result;
}

/* The worker's number of the context that a function names; NULL is the current one. */
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
