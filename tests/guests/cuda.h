/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the driver's functions by programs that aren't linked with it: a failure ends them. */
#ifndef GUESTS_CUDA_H
#define GUESTS_CUDA_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define FAILED 3 /* exit code */

static void *library;

static void *named(const char *name)
{
	void *f = dlsym(library, name);

	if (!f) {
		fprintf(stderr, "%s: not there\n", name);
		exit(FAILED);
	}
	return f;
}

static void check(const char *call, int result)
{
	if (result) {
		fprintf(stderr, "%s: %d\n", call, result);
		exit(FAILED);
	}
}

/* CALL(cuInit, (unsigned int), 0): a function, the types of its parameters, and arguments. */
#define CALL(name, types, ...) check(#name, ((int(*) types)named(#name))(__VA_ARGS__))

/* use_gpu loads the library and makes GPU 0's context current. */
static inline void use_gpu(void)
{
	void *context;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "libcuda.so.1: %s\n", dlerror());
		exit(FAILED);
	}
	CALL(cuInit, (unsigned int), 0);
	CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
	CALL(cuCtxSetCurrent, (void *), context);
}

/* load_kernel returns the kernel of a name in PTX. */
static inline void *load_kernel(const char *code, const char *name)
{
	void *module, *function;

	CALL(cuModuleLoadData, (void **, const void *), &module, code);
	CALL(cuModuleGetFunction, (void **, void *, const char *), &function, module, name);
	return function;
}

static inline void launch(void *function, unsigned int blocks, unsigned int threads,
			  void **parameters)
{
	CALL(cuLaunchKernel,
	     (void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
	      unsigned int, unsigned int, void *, void **, void **),
	     function, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL);
}

#endif
