/* SPDX-License-Identifier: Apache-2.0 */
/* Linking of device code. The worker links; the image stays here until the link is destroyed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "code/jit.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"

#define INPUT_LAST 6

struct link {
	struct handle handle;
	struct jit jit;
	void *image;
};

static void release(struct handle *h)
{
	free(((struct link *)h)->image);
	free(h);
}

static struct link *find(CUlinkState state)
{
	return (struct link *)handle_find(HANDLE_LINK, state);
}

/* Fills the program's logs with what the compiler has said so far. */
static void tell(CUlinkState state, struct link *l)
{
	uint64_t info = 0, error = 0;

	if (l->jit.info_bytes || l->jit.error_bytes)
		call_LinkLogs(number_of(state), l->jit.info, l->jit.info_bytes, l->jit.error,
			      l->jit.error_bytes, &info, &error);
	jit_finish(&l->jit, info, error);
}

EXPORT CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
				CUlinkState *stateOut)
{
	struct link *l;
	uint64_t number;
	CUresult result;

	ENTER_CONTEXT();
	if (!stateOut)
		return CUDA_ERROR_INVALID_VALUE;
	l = (struct link *)handle_new(sizeof(*l), 0);
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->handle.release = release;
	result = jit_parse(&l->jit, numOptions, options, optionValues);
	if (l->jit.info_bytes > CUDA_MAX_LOG_BYTES)
		l->jit.info_bytes = CUDA_MAX_LOG_BYTES;
	if (l->jit.error_bytes > CUDA_MAX_LOG_BYTES)
		l->jit.error_bytes = CUDA_MAX_LOG_BYTES;
	if (!result)
		result = call_LinkCreate(&number, l->jit.pairs ? l->jit.pair : NULL,
					 l->jit.pairs * 16, l->jit.info_bytes, l->jit.error_bytes);
	if (result) {
		free(l);
		return result;
	}
	result = handle_enter(HANDLE_LINK, number, &l->handle);
	if (!result)
		*stateOut = (CUlinkState)(uintptr_t)number;
	return result;
}

EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
				 const char *name, unsigned int numOptions, CUjit_option *options,
				 void **optionValues)
{
	struct link *l;
	struct jit j;
	CUresult result;

	ENTER_CONTEXT();
	l = find(state);
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || !size || type < 0 || type > INPUT_LAST)
		return CUDA_ERROR_INVALID_VALUE;
	result = jit_parse(&j, numOptions, options, optionValues);
	if (result)
		return result;
	jit_begin(&l->jit);
	result = call_LinkAddData(number_of(state), (uint64_t)type, data, size, name ? name : "",
				  j.pairs ? j.pair : NULL, j.pairs * 16);
	tell(state, l);
	return result;
}

static CUresult read_file(const char *path, void **data, size_t *size)
{
	FILE *f = fopen(path, "rb");
	CUresult result = CUDA_ERROR_INVALID_IMAGE;
	long end;

	*data = NULL;
	if (!f)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (!fseek(f, 0, SEEK_END) && (end = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET)) {
		*size = (size_t)end;
		*data = malloc(*size);
		result = !*data				    ? CUDA_ERROR_OUT_OF_MEMORY :
			 fread(*data, 1, *size, f) == *size ? CUDA_SUCCESS :
							      CUDA_ERROR_OPERATING_SYSTEM;
	}
	fclose(f);
	return result;
}

EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
				 unsigned int numOptions, CUjit_option *options,
				 void **optionValues)
{
	void *data;
	size_t size = 0;
	CUresult result;

	ENTER_CONTEXT();
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	result = read_file(path, &data, &size);
	if (!result)
		result = cuLinkAddData_v2(state, type, data, size, path, numOptions, options,
					  optionValues);
	free(data);
	return result;
}

EXPORT CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct link *l;
	uint64_t bytes;
	CUresult result;

	ENTER_CONTEXT();
	l = find(state);
	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cubinOut)
		return CUDA_ERROR_INVALID_VALUE;
	jit_begin(&l->jit);
	result = call_LinkComplete(number_of(state), &bytes);
	tell(state, l);
	if (result)
		return result;
	free(l->image);
	l->image = calloc(1, bytes + 1);
	if (!l->image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = call_LinkImage(number_of(state), l->image, bytes);
	if (result)
		return result;
	*cubinOut = l->image;
	if (sizeOut)
		*sizeOut = bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkDestroy(CUlinkState state)
{
	ENTER();
	if (!find(state))
		return CUDA_ERROR_INVALID_HANDLE;
	handle_forget(HANDLE_LINK, state);
	return channel_synced(call_cuLinkDestroy(number_of(state)));
}
