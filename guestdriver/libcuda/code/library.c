/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "code/loaded.h"
#include "context/zz_generated_calls.h"
#include "managed/managed.h"

static CUresult load(CUlibrary *library, struct image *image, struct jit *j)
{
	uint64_t handle;
	CUresult result = loaded_make(HANDLE_LIB, image, j, &handle);

	if (!result)
		*library = (CUlibrary)(uintptr_t)handle;
	return result;
}

/* Library options concern tables and copies in this process only, so none is sent. */
static CUresult check_options(CUlibraryOption *options, unsigned count)
{
	if (count && !options)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		if (options[i] < 0 || options[i] > 1)
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
				  void **jitOptionsValues, unsigned int numJitOptions,
				  CUlibraryOption *libraryOptions, void **libraryOptionValues,
				  unsigned int numLibraryOptions)
{
	struct image i;
	struct jit j;
	CUresult result;

	(void)libraryOptionValues;
	ENTER();
	if (!library || !code)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_options(libraryOptions, numLibraryOptions);
	if (!result)
		result = jit_parse(&j, numJitOptions, jitOptions, jitOptionsValues);
	if (!result)
		result = image_measure(code, SIZE_MAX, &i);
	return result ? result : load(library, &i, &j);
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
				      CUjit_option *jitOptions, void **jitOptionsValues,
				      unsigned int numJitOptions, CUlibraryOption *libraryOptions,
				      void **libraryOptionValues, unsigned int numLibraryOptions)
{
	struct image i;
	struct jit j;
	CUresult result;

	(void)libraryOptionValues;
	ENTER();
	if (!library || !fileName)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_options(libraryOptions, numLibraryOptions);
	if (!result)
		result = jit_parse(&j, numJitOptions, jitOptions, jitOptionsValues);
	if (!result)
		result = image_read(fileName, &i);
	return result ? result : load(library, &i, &j);
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	static const enum handle_kind children[] = { HANDLE_KERNEL, HANDLE_FUNC, HANDLE_TEXREF,
						     HANDLE_MODULE };
	uint64_t managed;
	CUresult result;

	ENTER();
	if (!handle_known(HANDLE_LIB, library))
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned i = 0; i < sizeof(children) / sizeof(children[0]); i++)
		handle_forget_children(children[i], number_of(library));
	managed = loaded_managed(HANDLE_LIB, library);
	handle_forget(HANDLE_LIB, library);
	result = call_cuLibraryUnload(number_of(library));
	if (!result) /* else it may still use its variables */
		managed_variables_end(managed);
	return result;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	uint64_t handle;
	CUresult result;

	ENTER();
	if (!pKernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_LIB, library))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuLibraryGetKernel(&handle, number_of(library), name);
	if (!result)
		result = function_add(handle, true, number_of(library));
	if (!result)
		*pKernel = (CUkernel)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	unsigned int there = 0;
	CUresult result;

	ENTER();
	if (!kernels || !numKernels)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuLibraryGetKernelCount(&there, lib);
	for (unsigned i = 0; !result && i < numKernels && i < there; i++) {
		uint64_t handle;

		result = call_cuLibraryEnumerateKernels(i, &handle, number_of(lib));
		if (!result)
			result = function_add(handle, true, number_of(lib));
		if (!result)
			kernels[i] = (CUkernel)(uintptr_t)handle;
	}
	return result;
}

EXPORT CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!pMod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_LIB, library))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuLibraryGetModule(&handle, number_of(library));
	if (!result && !handle_known(HANDLE_MODULE, (void *)(uintptr_t)handle))
		result = loaded_enter(HANDLE_MODULE, handle, 0, number_of(library));
	if (!result)
		*pMod = (CUmodule)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	uint64_t handle;
	struct function *f, *k;
	CUresult result;

	ENTER_CONTEXT();
	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	k = kernel_find(kernel);
	if (!k)
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuKernelGetFunction(&handle, number_of(kernel));
	if (!result)
		result = function_add(handle, false, k->handle.parent);
	if (result)
		return result;
	*pFunc = (CUfunction)(uintptr_t)handle;
	f = function_find(*pFunc);
	if (f)
		__atomic_store_n(&f->of, number_of(kernel), __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				    const char *name)
{
	uint64_t base, size;
	struct memory m;
	CUresult result;

	ENTER();
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_LIB, library))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuLibraryGetManaged(&base, &size, number_of(library), name);
	if (result)
		return result;
	/* The worker may say anything; the program is about to touch this memory. */
	if (!managed_find(base, size, &m) || !m.variables)
		return CUDA_ERROR_UNKNOWN;
	if (dptr)
		*dptr = base;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

/* No device here can give a function one address that all devices share. */
EXPORT CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	ENTER();
	if (!fptr || !symbol)
		return CUDA_ERROR_INVALID_VALUE;
	return handle_known(HANDLE_LIB, library) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct function *f;

	ENTER();
	f = function_find(hfunc);
	if (!hmod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f || f->kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	if (handle_known(HANDLE_LIB, (void *)(uintptr_t)f->handle.parent))
		return cuLibraryGetModule(hmod, (CUlibrary)(uintptr_t)f->handle.parent);
	*hmod = (CUmodule)(uintptr_t)f->handle.parent;
	return CUDA_SUCCESS;
}
