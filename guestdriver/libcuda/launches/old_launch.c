/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches as before CUDA 4: shape, shared memory and parameters are kept with the function until
 * it is launched.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/context.h"

#define PARAMETERS_MAX 4096u

/* `extra` of cuLaunchKernel. */
#define BUFFER_POINTER ((void *)1)
#define BUFFER_SIZE ((void *)2)

struct old_launch {
	int block[3];
	unsigned shared;
	unsigned bytes;
	uint8_t parameters[PARAMETERS_MAX];
};

static struct {
	pthread_mutex_t lock; /* guards what is kept with every function */
} state = { PTHREAD_MUTEX_INITIALIZER };

/*
 * What is kept with a function, made on first use; the lock is held. NULL when there is no memory.
 */
static struct old_launch *of(struct function *f)
{
	if (!f->old_launch)
		f->old_launch = calloc(1, sizeof(*f->old_launch));
	return f->old_launch;
}

#define ENTER_FUNCTION(f, hfunc)                          \
	do {                                              \
		ENTER_CONTEXT();                          \
		f = function_find(hfunc);                 \
		if (!f)                                   \
			return CUDA_ERROR_INVALID_HANDLE; \
	} while (0)

EXPORT CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	struct old_launch *o;
	struct function *f;

	ENTER_FUNCTION(f, hfunc);
	if (x <= 0 || y <= 0 || z <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	o = of(f);
	if (o) {
		o->block[0] = x;
		o->block[1] = y;
		o->block[2] = z;
	}
	pthread_mutex_unlock(&state.lock);
	return o ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	struct old_launch *o;
	struct function *f;

	ENTER_FUNCTION(f, hfunc);
	pthread_mutex_lock(&state.lock);
	o = of(f);
	if (o)
		o->shared = bytes;
	pthread_mutex_unlock(&state.lock);
	return o ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	struct old_launch *o;
	struct function *f;

	ENTER_FUNCTION(f, hfunc);
	if (numbytes > PARAMETERS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	o = of(f);
	if (o)
		o->bytes = numbytes;
	pthread_mutex_unlock(&state.lock);
	return o ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	struct old_launch *o;
	struct function *f;

	ENTER_FUNCTION(f, hfunc);
	if (!ptr || offset < 0 || (unsigned)offset > PARAMETERS_MAX ||
	    numbytes > PARAMETERS_MAX - (unsigned)offset)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	o = of(f);
	if (o)
		memcpy(o->parameters + offset, ptr, numbytes);
	pthread_mutex_unlock(&state.lock);
	return o ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

EXPORT CUresult cuParamSetf(CUfunction hfunc, int offset, float value)
{
	return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

EXPORT CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	struct old_launch o = { 0 };
	struct function *function;
	size_t bytes;
	void *extra[] = { BUFFER_POINTER, o.parameters, BUFFER_SIZE, &bytes, NULL };

	ENTER_FUNCTION(function, f);
	if (grid_width <= 0 || grid_height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	if (function->old_launch)
		o = *function->old_launch;
	pthread_mutex_unlock(&state.lock);
	if (!o.block[0])
		return CUDA_ERROR_INVALID_VALUE;
	bytes = o.bytes;
	return cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1,
			      (unsigned)o.block[0], (unsigned)o.block[1], (unsigned)o.block[2],
			      o.shared, hStream, NULL, bytes ? extra : NULL);
}

EXPORT CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	return cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

EXPORT CUresult cuLaunch(CUfunction f)
{
	return cuLaunchGrid(f, 1, 1);
}
