/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cooperative kernel on several devices. The worker's driver launches all of it if it can do
 * that. Otherwise it is a cooperative launch on each, with events before and after them. Then what
 * a kernel may ask CUDA about the whole (multi_grid of CUDA 12 and before) isn't there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"
#include "launches/launch.h"
#include "streams/capture.h"

#define MULTI_DEVICE_FLAGS                                         \
	(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC | \
	 CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)

_Static_assert(DEVICES_MAX <= PARACUDA_MAX_LAUNCH_DEVICES, "a command has room for all devices");

/* Calls a function for an entry, and for what belongs to that, in the context of its stream. */
static CUresult in_context(CUDA_LAUNCH_PARAMS *p, void *of,
			   CUresult (*step)(CUDA_LAUNCH_PARAMS *p, void *of))
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
	result = step(p, of);
	cuCtxPopCurrent_v2(&popped);
	return result;
}

static CUresult launch(CUDA_LAUNCH_PARAMS *p, void *of)
{
	(void)of;
	return cuLaunchCooperativeKernel(p->function, p->gridDimX, p->gridDimY, p->gridDimZ,
					 p->blockDimX, p->blockDimY, p->blockDimZ,
					 p->sharedMemBytes, p->hStream, p->kernelParams);
}

/* Finds errors before any kernel is launched, since a launched one would wait for the others. */
static CUresult check(CUDA_LAUNCH_PARAMS *p, void *of)
{
	uint64_t blocks = (uint64_t)p->gridDimX * p->gridDimY, threads;
	CUresult result = capture_question(p->hStream);
	CUdevice device;
	int at_once;

	(void)of;
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

static CUresult record(CUDA_LAUNCH_PARAMS *p, void *of)
{
	CUevent *event = of;
	CUresult result = cuEventCreate(event, CU_EVENT_DISABLE_TIMING);

	return result ? result : cuEventRecord(*event, p->hStream);
}

static CUresult wait(CUDA_LAUNCH_PARAMS *p, void *of)
{
	const CUevent *event = of;

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

/* What is sent of an entry: itself, and its parameters. */
struct packed {
	CUDA_LAUNCH_PARAMS entry;
	uint8_t parameters[CUDA_MAX_PARAMETER_BYTES];
};

static CUresult pack(CUDA_LAUNCH_PARAMS *p, void *of)
{
	struct packed *to = of;
	CUfunction function = p->function;
	struct function *f = function_find(function);
	struct description *d;
	CUresult result = CUDA_SUCCESS;

	if (f && f->kernel) /* the worker knows only in which context the caller is */
		result = cuKernelGetFunction(&function, (CUkernel)p->function);
	f = result ? NULL : function_find(function);
	if (!result)
		result = f ? function_describe(f, &d) : CUDA_ERROR_INVALID_HANDLE;
	if (result)
		return result;
	launch_pack(to->parameters, d, p->kernelParams);
	to->entry = *p;
	to->entry.function = (CUfunction)(uintptr_t)f->number;
	to->entry.hStream = (CUstream)(uintptr_t)number_of(p->hStream);
	to->entry.kernelParams = (void **)(uintptr_t)d->parameter_bytes;
	return CUDA_SUCCESS;
}

/* All that is sent. */
struct together {
	struct packed *packed;
	unsigned n, flags;
	CUDA_LAUNCH_PARAMS entries[DEVICES_MAX];
};

static CUresult send(CUDA_LAUNCH_PARAMS *p, void *of)
{
	struct together *t = of;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED; /* there are too many bytes of parameters */
	uint8_t *parameters = malloc(t->n * sizeof(t->packed->parameters));
	size_t bytes = 0;

	(void)p;
	if (!parameters)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < t->n; i++) {
		size_t more = (size_t)(uintptr_t)t->packed[i].entry.kernelParams;

		t->entries[i] = t->packed[i].entry;
		memcpy(parameters + bytes, t->packed[i].parameters, more);
		memset(parameters + bytes + more, 0, -more & 7);
		bytes += more + (-more & 7);
	}
	if (bytes <= PARACUDA_MAX_DEVICES_BYTES)
		result = call_cuLaunchCooperativeKernelMultiDevice(
			&(struct args_cuLaunchCooperativeKernelMultiDevice){
				.flags = t->flags,
				.count = t->n,
				.parameter_bytes = bytes,
				.parameters = parameters,
				.entries = t->entries,
			});
	free(parameters);
	return result;
}

/* Has the worker's driver launch all of them. */
static CUresult launch_together(CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags)
{
	struct together t = { .packed = calloc(n, sizeof(*t.packed)), .n = n, .flags = flags };
	CUresult result = t.packed ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (unsigned i = 0; i < n && !result; i++)
		result = in_context(&list[i], &t.packed[i], pack);
	if (!result)
		result = in_context(list, &t, send);
	free(t.packed);
	return result;
}

/* Whether the worker's driver launches kernels on several devices. */
static bool driver_can(const CUDA_LAUNCH_PARAMS *list, unsigned n)
{
	bool can = true;

	for (unsigned i = 0; i < n && can; i++)
		can = device_number(handle_find(HANDLE_STREAM, list[i].hStream)->context->device,
				    CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH);
	return can;
}

static CUresult launch_apart(CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags)
{
	CUresult result = CUDA_SUCCESS;

	if (!(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC))
		result = join(list, n);
	for (unsigned i = 0; i < n && !result; i++)
		result = in_context(&list[i], NULL, launch);
	if (!result && !(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC))
		result = join(list, n);
	return result;
}

static CUresult launch_all(CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags)
{
	CUresult result = compare(list, n);

	for (unsigned i = 0; i < n && !result; i++)
		result = in_context(&list[i], NULL, check);
	if (result)
		return result;
	result = driver_can(list, n) ? launch_together(list, n, flags) : CUDA_ERROR_NOT_SUPPORTED;
	return result == CUDA_ERROR_NOT_SUPPORTED ? launch_apart(list, n, flags) : result;
}

static CUresult launch_one(CUDA_LAUNCH_PARAMS *p, void *of)
{
	CUresult result = capture_question(p->hStream);

	return result ? result : launch(p, of);
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
