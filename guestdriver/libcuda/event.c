/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "handle.h"
#include "zz_generated_calls.h"
#include "zz_generated_prototypes.h"

#define EVENT_DISABLE_TIMING 2u
#define EVENT_INTERPROCESS 4u
#define EVENT_FLAGS 7u

EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!phEvent || Flags & ~EVENT_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & EVENT_INTERPROCESS)
		return Flags & EVENT_DISABLE_TIMING ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	result = call_EventCreate(&handle, Flags);
	if (!result)
		result = handle_add(HANDLE_EVENT, handle, Flags, 0);
	if (!result)
		*phEvent = (CUevent)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return cuEventRecordWithFlags(hEvent, hStream, 0);
}

EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
	struct request r;

	ENTER_CONTEXT();
	if (!handle_known(HANDLE_EVENT, hEvent))
		return CUDA_ERROR_INVALID_HANDLE;
	request_init(&r, OP_cuEventSynchronize);
	request_word(&r, number_of(hEvent));
	return channel_synced(channel_call(&r, NULL, 0));
}

EXPORT CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct handle *start, *end;
	uint64_t nanoseconds;
	CUresult result;

	ENTER_CONTEXT();
	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	start = handle_find(HANDLE_EVENT, hStart);
	end = handle_find(HANDLE_EVENT, hEnd);
	if (!start || !end || (start->flags | end->flags) & EVENT_DISABLE_TIMING)
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
