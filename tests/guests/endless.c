/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endless: launches a kernel that never ends, and waits for it. Exit code 3: a call failed, which
 * it names.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES (4ul << 20)
#define FAILED 3

static const char code[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			   ".visible .entry wait(.param .u64 p) {\n"
			   ".reg .b32 %r<2>;\n.reg .b64 %q<2>;\n.reg .pred %p<2>;\n"
			   "ld.param.u64 %q1, [p];\n"
			   "AGAIN:\nld.volatile.global.u32 %r1, [%q1];\n"
			   "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra AGAIN;\nret;\n}\n";

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

#define CALL(name, types, ...) check(#name, ((int(*) types)named(#name))(__VA_ARGS__))

int main(void)
{
	void *context, *module, *function;
	unsigned long device;
	void *parameters[] = { &device };

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		return FAILED;
	CALL(cuInit, (unsigned int), 0);
	CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
	CALL(cuCtxSetCurrent, (void *), context);
	CALL(cuModuleLoadData, (void **, const void *), &module, code);
	CALL(cuModuleGetFunction, (void **, void *, const char *), &function, module, "wait");
	CALL(cuMemAlloc_v2, (unsigned long *, size_t), &device, BYTES);
	CALL(cuMemsetD8_v2, (unsigned long, unsigned char, size_t), device, 0, BYTES);
	CALL(cuLaunchKernel,
	     (void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
	      unsigned int, unsigned int, void *, void **, void **),
	     function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
	CALL(cuCtxSynchronize, (void));
	return 0;
}
