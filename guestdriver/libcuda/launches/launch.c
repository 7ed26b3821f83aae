/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches: parameters are packed here by the function's layout, and nobody waits. */
#define _GNU_SOURCE
#include "launches/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"
#include "streams/activity.h"
#include "streams/capture.h"
#include "streams/stream.h"

#define PACKED_ON_STACK 1024

/* Written by the start alone. */
static struct {
	bool blocking; /* CUDA_LAUNCH_BLOCKING */
} state;

void launch_init(void)
{
	const char *text = getenv("CUDA_LAUNCH_BLOCKING");

	state.blocking = text && *text && strcmp(text, "0");
}

CUresult launch_extra(void **extra, const void **data, size_t *bytes)
{
	*data = NULL;
	*bytes = 0;
	for (; (uintptr_t)extra[0] != CU_LAUNCH_PARAM_END_AS_INT; extra += 2) {
		if ((uintptr_t)extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
			*data = extra[1];
		else if ((uintptr_t)extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT && extra[1])
			*bytes = *(const size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if ((*bytes && !*data) || *bytes > CUDA_MAX_PARAMETER_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Most parameters are words: a copy whose size is known costs no call. */
static void copy_parameter(uint8_t *to, const void *from, uint32_t bytes)
{
	if (bytes == 8)
		memcpy(to, from, 8);
	else if (bytes == 4)
		memcpy(to, from, 4);
	else
		memcpy(to, from, bytes);
}

static void pack_words(uint8_t *to, unsigned count, void **parameters)
{
	for (unsigned i = 0; i < count; i++)
		memcpy(to + i * sizeof(uint64_t), parameters[i], sizeof(uint64_t));
}

static void pack_half_words(uint8_t *to, unsigned count, void **parameters)
{
	for (unsigned i = 0; i < count; i++)
		memcpy(to + i * sizeof(uint32_t), parameters[i], sizeof(uint32_t));
}

void launch_pack(uint8_t *to, const struct description *d, void **parameters)
{
	if (d->alike == sizeof(uint64_t)) {
		pack_words(to, d->parameters, parameters);
		return;
	}
	if (d->alike == sizeof(uint32_t)) {
		pack_half_words(to, d->parameters, parameters);
		return;
	}
	if (!d->dense)
		memset(to, 0, d->parameter_bytes);
	for (const struct parameter *p = d->parameter, *end = p + d->parameters; p < end; p++)
		copy_parameter(to + p->offset, *parameters++, p->bytes);
}

/* A launch that is captured runs later: there is nothing to wait for. */
static CUresult wait_if_blocking(CUstream stream)
{
	return state.blocking && !capture_of(stream) ? cuStreamSynchronize(stream) : CUDA_SUCCESS;
}

static CUresult send(const struct function *f, const struct shape *s, CUstream stream,
		     const void *data, size_t bytes, const CUlaunchAttribute *attributes,
		     unsigned count, bool doubtful)
{
	struct request r;
	CUresult result;

	request_cuLaunchKernel(&r, &(struct args_cuLaunchKernel){
					   .function = f->number,
					   .stream = number_of(stream),
					   .grid_x = s->grid[0],
					   .grid_y = s->grid[1],
					   .grid_z = s->grid[2],
					   .block_x = s->block[0],
					   .block_y = s->block[1],
					   .block_z = s->block[2],
					   .shared = s->shared,
					   .parameter_bytes = bytes,
					   .parameters = data,
					   .attribute_count = count,
					   .attributes = attributes,
				   });
	result = doubtful ? channel_call(&r, NULL, 0) : channel_post(&r);
	return result ? result : wait_if_blocking(stream);
}

/*
 * Checks a launch before the driver is asked, and returns its parameters if they are packed
 * already. The driver checks a shape in an order of its own, so it is asked if anything else may be
 * wrong, too.
 */
static CUresult check(struct function *f, const struct shape *s, bool ask, void **parameters,
		      void **extra, struct description **d, const void **data, size_t *bytes)
{
	CUresult result;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (parameters && extra)
		return CUDA_ERROR_INVALID_VALUE;
	result = function_describe(f, d);
	if (!result && !ask)
		result = launch_check(s, context_current()->device);
	if (!result && extra)
		result = launch_extra(extra, data, bytes);
	if (!result && !extra && !parameters && (*d)->parameters)
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

static CUresult launch(CUfunction handle, const struct shape *s, CUstream stream, void **parameters,
		       void **extra, const CUlaunchAttribute *attributes, unsigned count)
{
	struct function *f = function_find(handle);
	uint8_t small[PACKED_ON_STACK], *large = NULL;
	struct description *d;
	const void *data = NULL;
	size_t bytes = 0;
	uint64_t proof;
	bool ask = count || capture_active(), doubtful;
	CUresult result;

	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = check(f, s, ask, parameters, extra, &d, &data, &bytes);
	if (result)
		return capture_refuse(stream, result);
	if (!extra && d->parameters) {
		bytes = d->parameter_bytes;
		large = bytes > sizeof(small) ? malloc(bytes) : NULL;
		if (bytes > sizeof(small) && !large)
			return CUDA_ERROR_OUT_OF_MEMORY;
		launch_pack(large ? large : small, d, parameters);
		data = large ? large : small;
	}
	doubtful = launch_doubtful(s, d, context_current()->device, bytes, attributes, count,
				   &proof) ||
		   (ask && launch_check(s, context_current()->device));
	result = WATCH(send(f, s, stream, data, bytes, attributes, count, doubtful),
		       .kind = PARACUDA_KERNEL, .stream = stream, .function = handle,
		       .grid = { s->grid[0], s->grid[1], s->grid[2] },
		       .block = { s->block[0], s->block[1], s->block[2] }, .shared = s->shared);
	if (proof && doubtful && !result && !capture_of(stream))
		launch_proven(d, proof);
	free(large);
	return result;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			       unsigned int gridDimZ, unsigned int blockDimX,
			       unsigned int blockDimY, unsigned int blockDimZ,
			       unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
			       void **extra)
{
	struct shape s = {
		{ gridDimX, gridDimY, gridDimZ },
		{ blockDimX, blockDimY, blockDimZ },
		sharedMemBytes,
	};

	ENTER_CONTEXT();
	return launch(f, &s, hStream, kernelParams, extra, NULL, 0);
}

EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
					  unsigned int gridDimY, unsigned int gridDimZ,
					  unsigned int blockDimX, unsigned int blockDimY,
					  unsigned int blockDimZ, unsigned int sharedMemBytes,
					  CUstream hStream, void **kernelParams)
{
	CUlaunchAttribute cooperative = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
					  .value.cooperative = 1 };
	struct shape s = {
		{ gridDimX, gridDimY, gridDimZ },
		{ blockDimX, blockDimY, blockDimZ },
		sharedMemBytes,
	};

	ENTER_CONTEXT();
	return launch(f, &s, hStream, kernelParams, NULL, &cooperative, 1);
}

/* The attributes of a launch that are sent. */
static CUresult collect(const CUlaunchConfig *config, CUlaunchAttribute *attributes,
			unsigned *count)
{
	CUresult result;

	if (config->numAttrs && !config->attrs)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute *a = &config->attrs[i];

		result = a->id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE ?
				 CUDA_SUCCESS :
				 launch_attribute(a, context_current()->device);
		if (result)
			return result;
		switch (a->id) {
		case CU_LAUNCH_ATTRIBUTE_IGNORE:
			break;
		case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
			return CUDA_ERROR_NOT_SUPPORTED;
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
			/*
			 * The value begins with an event, which the worker replaces with the
			 * driver's.
			 */
			if (!handle_known(HANDLE_EVENT, a->value.programmaticEvent.event))
				return CUDA_ERROR_INVALID_HANDLE;
			/* fall through */
		default:
			if (*count == CUDA_MAX_LAUNCH_ATTRIBUTES)
				return CUDA_ERROR_INVALID_VALUE;
			attributes[(*count)++] = *a;
		}
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
				 void **extra)
{
	CUlaunchAttribute attributes[CUDA_MAX_LAUNCH_ATTRIBUTES];
	unsigned count = 0;
	CUstream stream;
	CUresult result;
	struct shape s;

	ENTER_CONTEXT();
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	stream = thread_stream(config->hStream);
	result = function_find(f) ? collect(config, attributes, &count) : CUDA_ERROR_INVALID_HANDLE;
	if (result)
		return capture_refuse(stream, result);
	s = (struct shape){
		{ config->gridDimX, config->gridDimY, config->gridDimZ },
		{ config->blockDimX, config->blockDimY, config->blockDimZ },
		config->sharedMemBytes,
	};
	return launch(f, &s, stream, kernelParams, extra, attributes, count);
}
