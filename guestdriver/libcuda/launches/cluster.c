/* SPDX-License-Identifier: Apache-2.0 */
/* How many clusters of blocks of a launch the device holds. */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/zz_generated_calls.h"
#include "launches/launch.h"
#include "streams/capture.h"

#define SHAPE_BYTES PARACUDA_SIZEOF_LAUNCH_SHAPE

_Static_assert(offsetof(struct paracuda_launch_shape, shared) ==
		       offsetof(CUlaunchConfig, sharedMemBytes),
	       "a launch's shape");

typedef CUresult question(uint64_t *answer, uint64_t func, const void *config, size_t config_bytes);

static CUresult ask(question *q, int *answer, CUfunction func, const CUlaunchConfig *config)
{
	uint8_t bytes[SHAPE_BYTES + CUDA_MAX_LAUNCH_ATTRIBUTES * sizeof(CUlaunchAttribute)] = { 0 };
	struct function *f;
	uint64_t value;
	CUresult result;

	if (!answer || !config)
		return CUDA_ERROR_INVALID_VALUE;
	if (number_of(config->hStream) > CU_STREAM_LEGACY) {
		result = capture_refuse(config->hStream, CUDA_SUCCESS);
		if (result)
			return result;
	}
	if ((config->numAttrs && !config->attrs) || config->numAttrs > CUDA_MAX_LAUNCH_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	f = function_find(func);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned i = 0; i < config->numAttrs; i++) {
		result = launch_attribute(&config->attrs[i], context_current()->device);
		if (result)
			return result;
	}
	/* The structure begins with the shape. */
	memcpy(bytes, config,
	       offsetof(CUlaunchConfig, sharedMemBytes) + sizeof(config->sharedMemBytes));
	if (config->numAttrs)
		memcpy(bytes + SHAPE_BYTES, config->attrs,
		       config->numAttrs * sizeof(CUlaunchAttribute));
	result = q(&value, f->number, bytes,
		   SHAPE_BYTES + config->numAttrs * sizeof(CUlaunchAttribute));
	if (!result)
		*answer = (int)value;
	return result;
}

EXPORT CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
					     const CUlaunchConfig *config)
{
	ENTER_CONTEXT();
	return ask(call_cuOccupancyMaxActiveClusters, numClusters, func, config);
}

EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
						   const CUlaunchConfig *config)
{
	ENTER_CONTEXT();
	return ask(call_cuOccupancyMaxPotentialClusterSize, clusterSize, func, config);
}
