/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cooperative kernel on several devices: a cooperative launch on each, with events before and
 * after them. What a kernel may ask CUDA about the whole (multi_grid of CUDA 12 and before) isn't
 * there.
 */
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "devices/device.h"
#include "streams/capture.h"

#define MULTI_DEVICE_FLAGS                                         \
	(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC | \
	 CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)

/* Calls a function for an entry in the context of its stream. */
static CUresult in_context(CUDA_LAUNCH_PARAMS *p, CUevent *event,
			   CUresult (*step)(CUDA_LAUNCH_PARAMS *p, CUevent *event))
{
	const struct handle *stream = handle_find(HANDLE_STREAM, p->hStream);
	CUresult result;
	CUcontext popped;

	/* A stream tells device and context, which default streams don't. */
	if (!stream || !p->function)
		return CUDA_ERROR_INVALID_HANDLE;
	result = cuCtxPushCurrent_v2(stream->context);
	if (result)
		return result;
	result = step(p, event);
	cuCtxPopCurrent_v2(&popped);
	return result;
}

static CUresult launch(CUDA_LAUNCH_PARAMS *p, CUevent *event)
{
	(void)event;
	return cuLaunchCooperativeKernel(p->function, p->gridDimX, p->gridDimY, p->gridDimZ,
					 p->blockDimX, p->blockDimY, p->blockDimZ,
					 p->sharedMemBytes, p->hStream, p->kernelParams);
}

/* Finds errors before any kernel is launched, since a launched one would wait for the others. */
static CUresult check(CUDA_LAUNCH_PARAMS *p, CUevent *event)
{
	uint64_t blocks = (uint64_t)p->gridDimX * p->gridDimY, threads;
	CUresult result = capture_question(p->hStream);
	CUdevice device;
	int at_once;

	(void)event;
	threads = (uint64_t)p->blockDimX * p->blockDimY;
	if (result)
		return result;
	if (!p->gridDimX || !p->gridDimY || !p->gridDimZ || !p->blockDimX || !p->blockDimY ||
	    !p->blockDimZ || !p->kernelParams || threads > UINT16_MAX || p->blockDimZ > UINT16_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuCtxGetDevice(&device);
	if (!result)
		result = cuOccupancyMaxActiveBlocksPerMultiprocessor(
			&at_once, p->function, (int)(threads * p->blockDimZ), p->sharedMemBytes);
	if (result)
		return result;
	at_once *= device_number(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	if (blocks > UINT32_MAX || blocks * p->gridDimZ > (uint64_t)at_once)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return CUDA_SUCCESS;
}

static CUresult record(CUDA_LAUNCH_PARAMS *p, CUevent *event)
{
	CUresult result = cuEventCreate(event, CU_EVENT_DISABLE_TIMING);

	return result ? result : cuEventRecord(*event, p->hStream);
}

static CUresult wait(CUDA_LAUNCH_PARAMS *p, CUevent *event)
{
	return cuStreamWaitEvent(p->hStream, *event, 0);
}

/* Makes what comes next in each stream wait for what is in the others. */
static CUresult join(CUDA_LAUNCH_PARAMS *list, unsigned n)
{
	CUevent events[DEVICES_MAX] = { 0 };
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && !result; i++)
		result = in_context(&list[i], &events[i], record);
	for (unsigned i = 0; i < n * n && !result; i++)
		if (i / n != i % n)
			result = in_context(&list[i / n], &events[i % n], wait);
	for (unsigned i = 0; i < n; i++)
		if (events[i])
			cuEventDestroy_v2(events[i]);
	return result;
}

/* Each entry must be on another device, with a function of its own context, and of one shape. */
static CUresult compare(const CUDA_LAUNCH_PARAMS *list, unsigned n)
{
	bool taken[DEVICES_MAX] = { 0 };

	for (unsigned i = 0; i < n; i++) {
		const CUDA_LAUNCH_PARAMS *p = &list[i];
		const struct handle *stream = handle_find(HANDLE_STREAM, p->hStream);
		const struct handle *function = handle_find(HANDLE_FUNC, p->function);

		if (!stream || (function && function->context != stream->context))
			return CUDA_ERROR_INVALID_HANDLE;
		if (taken[stream->context->device])
			return CUDA_ERROR_INVALID_VALUE;
		taken[stream->context->device] = true;
		if (p->gridDimX != list->gridDimX || p->gridDimY != list->gridDimY ||
		    p->gridDimZ != list->gridDimZ || p->blockDimX != list->blockDimX ||
		    p->blockDimY != list->blockDimY || p->blockDimZ != list->blockDimZ ||
		    p->sharedMemBytes != list->sharedMemBytes)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult launch_all(CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags)
{
	CUresult result = compare(list, n);

	for (unsigned i = 0; i < n && !result; i++)
		result = in_context(&list[i], NULL, check);
	if (!result && !(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC))
		result = join(list, n);
	for (unsigned i = 0; i < n && !result; i++)
		result = in_context(&list[i], NULL, launch);
	if (!result && !(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC))
		result = join(list, n);
	return result;
}

static CUresult launch_one(CUDA_LAUNCH_PARAMS *p, CUevent *event)
{
	CUresult result = capture_question(p->hStream);

	return result ? result : launch(p, event);
}

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
						     unsigned int numDevices, unsigned int flags)
{
	ENTER();
	if (!launchParamsList || !numDevices || numDevices > devices.count ||
	    (flags & ~(unsigned)MULTI_DEVICE_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (numDevices == 1) /* the flags change nothing */
		return in_context(launchParamsList, NULL, launch_one);
	return launch_all(launchParamsList, numDevices, flags);
}
