/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that cuBLAS, cuBLASLt and cuFFT ask for. What their functions do was found out from
 * arguments and results.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "exports/export_table.h"
#include "exports/unsupported.h"
#include "streams/stream.h"

#define FUNCTION(f) ((uintptr_t)(f))

/* 21318c60: the identity of contexts and streams. */
static CUresult identity_unknown(void)
{
	static int said;

	return unsupported("a function of export table 21318c60", &said);
}

static CUresult identity_device(CUcontext ctx, CUdevice *device)
{
	return cuCtxGetDevice_v2(device, ctx);
}

static CUresult identity_id(CUcontext ctx, uint64_t *id)
{
	unsigned long long value = 0;
	CUresult result;

	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	result = ctx ? cuCtxGetId(ctx, &value) : CUDA_SUCCESS;
	*id = value;
	return result;
}

/* A stream under a name that is never NULL, for identity_stream_id. */
static CUresult identity_stream(CUcontext ctx, CUstream stream, CUstream *out)
{
	(void)ctx;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = stream ? stream : (CUstream)(uintptr_t)CU_STREAM_LEGACY;
	return CUDA_SUCCESS;
}

static CUresult identity_stream_id(CUcontext ctx, CUstream stream, unsigned long long *id)
{
	(void)ctx;
	return cuStreamGetId(stream, id);
}

const export_word export_identity[95] = {
	95 * sizeof(export_word),     FUNCTION(identity_unknown),
	FUNCTION(identity_unknown),   FUNCTION(identity_device),
	FUNCTION(identity_id),	      [5 ... 38] = FUNCTION(identity_unknown),
	FUNCTION(identity_stream_id), [40 ... 50] = FUNCTION(identity_unknown),
	FUNCTION(identity_stream),    [52 ... 94] = FUNCTION(identity_unknown),
};

/* 6e163fbe: the functions of a module. */
static CUresult functions_unknown(void)
{
	static int said;

	return unsupported("a function of export table 6e163fbe", &said);
}

/*
 * Calls `each` with every function of a module and returns their number: cuFFT takes what it has
 * linked from there.
 */
static unsigned functions_of_module(CUcontext ctx, CUmodule module,
				    void (*each)(void *opaque, CUfunction f), void *opaque)
{
	unsigned count = 0, done = 0;

	(void)ctx;
	if (cuModuleGetFunctionCount(&count, module))
		return 0;
	for (unsigned i = 0; i < count; i++) {
		CUfunction f = module_function(module, i);

		if (f) {
			each(opaque, f);
			done++;
		}
	}
	return done;
}

const export_word export_functions[99] = {
	99 * sizeof(export_word),
	[1 ... 6] = FUNCTION(functions_unknown),
	FUNCTION(functions_of_module),
	[8 ... 98] = FUNCTION(functions_unknown),
};

/* 1734dc26: which multiprocessors can be in one cluster, in the host's own form. */
static CUresult clusters_unknown(void)
{
	static int said;

	return unsupported("a function of export table 1734dc26", &said);
}

static CUresult clusters_free(void *first, void *second)
{
	free(first);
	free(second);
	return CUDA_SUCCESS;
}

/* Returns two arrays, which clusters_free frees. */
static CUresult clusters_get(void **first, void **second)
{
	enum { ROOM = 4096 };
	uint64_t bytes = 0;
	CUresult result;

	ENTER_CONTEXT();
	if (!first || !second)
		return CUDA_ERROR_INVALID_VALUE;
	*first = calloc(1, ROOM);
	*second = calloc(1, ROOM);
	result = *first && *second ? call_ClusterMap(*first, ROOM, *second, ROOM, &bytes) :
				     CUDA_ERROR_OUT_OF_MEMORY;
	if (result) {
		clusters_free(*first, *second);
		*first = *second = NULL;
	}
	return result;
}

const export_word export_clusters[17] = {
	17 * sizeof(export_word), [1 ... 3] = FUNCTION(clusters_unknown),
	FUNCTION(clusters_get),	  [5 ... 12] = FUNCTION(clusters_unknown),
	FUNCTION(clusters_free),  [14 ... 16] = FUNCTION(clusters_unknown),
};
