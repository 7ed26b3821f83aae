/* SPDX-License-Identifier: Apache-2.0 */
/* A cooperative kernel on several devices: here on one of those that a VM has. */
#include "base/log.h"
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "devices/device.h"
#include "streams/capture.h"

/* On one device these change nothing. */
#define MULTI_DEVICE_FLAGS                                         \
	(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC | \
	 CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)

/* The stream says which device and context; default streams can't. */
static CUresult launch_on(const CUDA_LAUNCH_PARAMS *p)
{
	const struct handle *stream = handle_find(HANDLE_STREAM, p->hStream);
	CUresult result;
	CUcontext popped;

	if (!stream || !p->function)
		return CUDA_ERROR_INVALID_HANDLE;
	result = cuCtxPushCurrent_v2(stream->context);
	if (result)
		return result;
	result = capture_question(p->hStream);
	if (!result)
		result = cuLaunchCooperativeKernel(
			p->function, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
			p->blockDimY, p->blockDimZ, p->sharedMemBytes, p->hStream, p->kernelParams);
	cuCtxPopCurrent_v2(&popped);
	return result;
}

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
						     unsigned int numDevices, unsigned int flags)
{
	ENTER();
	/* Each entry must be on another device. */
	if (!launchParamsList || !numDevices || numDevices > devices.count ||
	    (flags & ~(unsigned)MULTI_DEVICE_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (numDevices > 1) {
		log_line(
			"cuLaunchCooperativeKernelMultiDevice is not supported on several devices");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return launch_on(launchParamsList);
}
