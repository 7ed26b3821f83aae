// SPDX-License-Identifier: Apache-2.0

#include "call.h"

#include <string.h>

typedef uint64_t w;

int32_t pc_call(void *function, const struct pc_frame *frame, int32_t n)
{
	const w *a = frame->argument;

	switch (n) {
	case 0:
		return ((int32_t(*)(void))function)();
	case 1:
		return ((int32_t(*)(w))function)(a[0]);
	case 2:
		return ((int32_t(*)(w, w))function)(a[0], a[1]);
	case 3:
		return ((int32_t(*)(w, w, w))function)(a[0], a[1], a[2]);
	case 4:
		return ((int32_t(*)(w, w, w, w))function)(a[0], a[1], a[2], a[3]);
	case 5:
		return ((int32_t(*)(w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4]);
	case 6:
		return ((int32_t(*)(w, w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4], a[5]);
	case 7:
		return ((int32_t(*)(w, w, w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4],
								   a[5], a[6]);
	case 8:
		return ((int32_t(*)(w, w, w, w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4],
								      a[5], a[6], a[7]);
	case 12:
		return ((int32_t(*)(w, w, w, w, w, w, w, w, w, w, w, w))function)(
			a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
	case 15:
		return ((int32_t(*)(w, w, w, w, w, w, w, w, w, w, w, w, w, w, w))function)(
			a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
			a[12], a[13], a[14]);
	case 16:
		return ((int32_t(*)(w, w, w, w, w, w, w, w, w, w, w, w, w, w, w, w))function)(
			a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
			a[12], a[13], a[14], a[15]);
	}
	return CUDA_ERROR_UNKNOWN;
}

typedef int32_t launch_kernel_fn(w, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
				 uint32_t, w, void **, void **);
typedef int32_t launch_kernel_ex_fn(const CUlaunchConfig *, w, void **, void **);

static int32_t launch_one(void *plain, void *ex, const struct pc_launch *l)
{
	size_t bytes = l->parameter_bytes;
	void *extra[] = {
		(void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT,
		(void *)(uintptr_t)l->parameters,
		(void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT,
		&bytes,
		(void *)CU_LAUNCH_PARAM_END_AS_INT,
	};
	void **packed = bytes ? extra : NULL;

	if (!l->attribute_count) {
		if (!plain)
			return CUDA_ERROR_NOT_SUPPORTED;
		return ((launch_kernel_fn *)plain)(l->function, l->grid[0], l->grid[1], l->grid[2],
						   l->block[0], l->block[1], l->block[2], l->shared,
						   l->stream, NULL, packed);
	}
	if (!ex)
		return CUDA_ERROR_NOT_SUPPORTED;
	CUlaunchConfig config = {
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared,
		.hStream = l->stream,
		.attrs = (CUlaunchAttribute *)(uintptr_t)l->attributes,
		.numAttrs = l->attribute_count,
	};
	if (l->pointers)
		return ((launch_kernel_ex_fn *)ex)(&config, l->function,
						   (void **)(uintptr_t)l->pointers, NULL);
	return ((launch_kernel_ex_fn *)ex)(&config, l->function, NULL, packed);
}

int32_t pc_open_event(void *function, uint64_t *event, const void *handle)
{
	CUipcEventHandle h;

	memcpy(&h, handle, sizeof(h));
	return ((int32_t(*)(uint64_t *, CUipcEventHandle))function)(event, h);
}

int32_t pc_call_floats(void *function, uint64_t object, float a, float b, int32_t n)
{
	if (n == 1)
		return ((int32_t(*)(w, float))function)(object, a);
	return ((int32_t(*)(w, float, float))function)(object, a, b);
}

int32_t pc_launches(void *launch_kernel, void *launch_kernel_ex, const struct pc_launch *launch,
		    int32_t n, int32_t *done)
{
	int32_t result = 0;
	int32_t i;

	for (i = 0; i < n; i++) {
		result = launch_one(launch_kernel, launch_kernel_ex, &launch[i]);
		if (result)
			break;
	}
	*done = i;
	return result;
}
