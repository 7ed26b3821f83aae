/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a module, by number. */
#define _GNU_SOURCE
#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "code/loaded.h"
#include "context/zz_generated_calls.h"

CUresult module_function_add(uint64_t number, CUmodule module)
{
	const struct handle *m = handle_find(HANDLE_MODULE, module);

	return m ? function_add(number, m->context, loaded_root(module)) :
		   CUDA_ERROR_INVALID_HANDLE;
}

static CUresult get(CUfunction *f, CUmodule module, unsigned index)
{
	uint64_t handle;
	CUresult result = call_cuModuleEnumerateFunctions(index, &handle, number_of(module));

	if (!result)
		result = module_function_add(handle, module);
	if (!result)
		*f = (CUfunction)(uintptr_t)handle;
	return result;
}

CUfunction module_function(CUmodule module, unsigned index)
{
	CUfunction f;

	return get(&f, module, index) ? NULL : f;
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
					   CUmodule mod)
{
	unsigned int there = 0;
	CUresult result;

	ENTER_CONTEXT();
	if (!functions || !numFunctions)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuModuleGetFunctionCount(&there, mod);
	for (unsigned i = 0; !result && i < numFunctions && i < there; i++)
		result = get(&functions[i], mod, i);
	return result;
}
