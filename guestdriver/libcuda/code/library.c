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
		result = function_add(handle, NULL, number_of(library));
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
			result = function_add(handle, NULL, number_of(lib));
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

/*
 * NVIDIA's runtime asks before each launch, so the answers are remembered. What a function lies in
 * is its owner's: those of green contexts aren't remembered, since a primary context owns them.
 */
static bool is_remembered(void)
{
	return context_current() == context_owner();
}

/* The function of a kernel in the current context, if it is known already; else 0. */
static uint64_t known_function(const struct function *k)
{
	for (unsigned i = 0; is_remembered() && i < KNOWN_FUNCTIONS; i++) {
		uint64_t number = __atomic_load_n(&k->functions[i], __ATOMIC_RELAXED);
		/* It may have ended with its context, or be another one by now. */
		struct handle *h = handle_find(HANDLE_FUNC, (void *)(uintptr_t)number);

		if (h && h->context == context_current() &&
		    __atomic_load_n(&((struct function *)h)->of, __ATOMIC_RELAXED) == k->number)
			return number;
	}
	return 0;
}

/* Enters the function of a kernel in the current context. */
static CUresult add_function(struct function *k, uint64_t number)
{
	CUresult result = function_add(number, context_owner(), k->handle.parent);
	struct function *f = function_find((void *)(uintptr_t)number);
	unsigned i;

	if (result || !f)
		return result;
	__atomic_store_n(&f->of, k->number, __ATOMIC_RELAXED);
	if (is_remembered()) {
		i = __atomic_fetch_add(&k->asked, 1, __ATOMIC_RELAXED) % KNOWN_FUNCTIONS;
		__atomic_store_n(&k->functions[i], number, __ATOMIC_RELAXED);
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct function *k;
	uint64_t number;
	CUresult result;

	ENTER_CONTEXT();
	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	k = kernel_find(kernel);
	if (!k)
		return CUDA_ERROR_INVALID_HANDLE;
	number = known_function(k);
	if (number) {
		result = channel_error(false);
	} else {
		result = call_cuKernelGetFunction(&number, k->number);
		if (!result)
			result = add_function(k, number);
	}
	if (!result)
		*pFunc = (CUfunction)(uintptr_t)number;
	return result;
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
	CUcontext popped;
	CUresult result;

	ENTER();
	f = function_find(hfunc);
	if (!hmod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f || f->kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	if (handle_known(HANDLE_LIB, (void *)(uintptr_t)f->handle.parent)) {
		result = cuCtxPushCurrent_v2(f->handle.context);
		if (result)
			return result;
		result = cuLibraryGetModule(hmod, (CUlibrary)(uintptr_t)f->handle.parent);
		cuCtxPopCurrent_v2(&popped);
		return result;
	}
	*hmod = (CUmodule)(uintptr_t)f->handle.parent;
	return CUDA_SUCCESS;
}
