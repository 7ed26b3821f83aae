/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "code/loaded.h"
#include "context/zz_generated_calls.h"
#include "managed/managed.h"

static CUresult load(CUmodule *module, struct image *image, struct jit *j)
{
	uint64_t handle;
	CUresult result = loaded_make(HANDLE_MODULE, image, j, &handle);

	if (!result)
		*module = (CUmodule)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				   CUjit_option *options, void **optionValues)
{
	struct image i;
	struct jit j;
	CUresult result;

	ENTER_CONTEXT();
	if (!module || !image)
		return CUDA_ERROR_INVALID_VALUE;
	result = jit_parse(&j, numOptions, options, optionValues);
	if (!result)
		result = image_measure(image, SIZE_MAX, &i);
	return result ? result : load(module, &i, &j);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return cuModuleLoadDataEx(module, fatCubin, 0, NULL, NULL);
}

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	struct image i;
	struct jit j;
	CUresult result;

	ENTER_CONTEXT();
	if (!module || !fname)
		return CUDA_ERROR_INVALID_VALUE;
	result = jit_parse(&j, 0, NULL, NULL);
	if (!result)
		result = image_read(fname, &i);
	return result ? result : load(module, &i, &j);
}

EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
	uint64_t managed;
	CUresult result;

	ENTER_CONTEXT();
	if (!handle_known(HANDLE_MODULE, hmod))
		return CUDA_ERROR_INVALID_HANDLE;
	handle_forget_children(HANDLE_FUNC, number_of(hmod));
	handle_forget_children(HANDLE_TEXREF, number_of(hmod));
	managed = loaded_managed(HANDLE_MODULE, hmod);
	handle_forget(HANDLE_MODULE, hmod);
	result = call_cuModuleUnload(number_of(hmod));
	if (result) /* it may still use its variables */
		return result;
	result = channel_error(true);
	managed_variables_end(managed);
	return result;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!hfunc || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_MODULE, hmod))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuModuleGetFunction(&handle, number_of(hmod), name);
	if (!result)
		result = module_function_add(handle, hmod);
	if (!result)
		*hfunc = (CUfunction)(uintptr_t)handle;
	return result;
}

/* Enters a variable of a context's module, so that copies take it for device memory. */
static CUresult enter_global(struct context *c, uint64_t base, uint64_t bytes)
{
	struct memory known, m = {
		.base = base,
		.bytes = bytes,
		.kind = MEMORY_GLOBAL,
		.device = c->device,
		.context = c,
	};

	if (!base || base + bytes < base)
		return CUDA_ERROR_UNKNOWN;
	if (managed_find(base, bytes, &known))
		return CUDA_SUCCESS;
	if (!bytes || (memory_find(base, &known) && known.base == base && known.bytes == bytes))
		return CUDA_SUCCESS;
	return memory_enter(&m) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult give_global(struct context *c, uint64_t base, uint64_t size, CUdeviceptr *dptr,
			    size_t *bytes)
{
	CUresult result = enter_global(c, base, size);

	if (result)
		return result;
	if (dptr)
		*dptr = base;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
				     const char *name)
{
	const struct handle *module;
	struct context *context;
	uint64_t base, size;
	CUresult result;

	ENTER_CONTEXT();
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	module = handle_find(HANDLE_MODULE, hmod);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	context = module->context;
	result = call_cuModuleGetGlobal_v2(&base, &size, number_of(hmod), name);
	return result ? result : give_global(context, base, size, dptr, bytes);
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				   const char *name)
{
	uint64_t base, size;
	CUresult result;

	ENTER_CONTEXT();
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_LIB, library))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuLibraryGetGlobal(&base, &size, number_of(library), name);
	return result ? result : give_global(context_owner(), base, size, dptr, bytes);
}
