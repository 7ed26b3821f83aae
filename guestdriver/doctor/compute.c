/* SPDX-License-Identifier: Apache-2.0 */
/* A small computation, with the library that programs get. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "checks.h"
#include "zz_generated_cuda_values.h"

/* PTX is text, which ends with a NUL. */
__asm__(".pushsection .rodata\n"
	".globl doctor_kernel\n"
	".hidden doctor_kernel\n"
	"doctor_kernel:\n"
	"	.incbin \"" KERNEL "\"\n"
	"	.byte 0\n"
	".popsection\n");

extern const char doctor_kernel[] __attribute__((visibility("hidden")));

typedef int CUresult;

#define FUNCTIONS(f)                                                                        \
	f(cuInit, (unsigned flags));                                                        \
	f(cuDeviceGet, (int *device, int ordinal));                                         \
	f(cuDeviceGetName, (char *name, int room, int device));                             \
	f(cuDevicePrimaryCtxRetain, (void **context, int device));                          \
	f(cuCtxSetCurrent, (void *context));                                                \
	f(cuModuleLoadData, (void **module, const void *image));                            \
	f(cuModuleGetFunction, (void **function, void *module, const char *name));          \
	f(cuMemAlloc_v2, (uint64_t * address, size_t bytes));                               \
	f(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes));                  \
	f(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes));                        \
	f(cuGetErrorName, (CUresult result, const char **name));                            \
	f(cuLaunchKernel,                                                                   \
	  (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
	   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra))

#define DECLARE(name, parameters) static CUresult(*name) parameters
FUNCTIONS(DECLARE);

enum { NUMBERS = 1000, THREADS = 128 };

/* Finds the functions; NULL, or what is missing. */
static const char *find(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol;

	if (!library)
		return "libcuda.so.1";
#define FIND(name, parameters)          \
	symbol = dlsym(library, #name); \
	if (!symbol)                    \
		return #name;           \
	memcpy(&name, &symbol, sizeof(name))
	FUNCTIONS(FIND);
	return NULL;
}

/* Squares numbers; what failed is in `step`. */
static CUresult square(uint32_t *numbers, const char **step)
{
	unsigned n = NUMBERS, blocks = (NUMBERS + THREADS - 1) / THREADS;
	size_t bytes = NUMBERS * sizeof(*numbers);
	void *context, *module, *function;
	uint64_t memory;
	void *parameters[] = { &memory, &n };
	CUresult r;

#define TRY(what, call)           \
	do {                      \
		*step = what;     \
		r = call;         \
		if (r)            \
			return r; \
	} while (0)
	TRY("make a context", cuDevicePrimaryCtxRetain(&context, 0));
	TRY("use a context", cuCtxSetCurrent(context));
	TRY("load a kernel", cuModuleLoadData(&module, doctor_kernel));
	TRY("find a kernel", cuModuleGetFunction(&function, module, "square"));
	TRY("allocate memory", cuMemAlloc_v2(&memory, bytes));
	TRY("copy to the GPU", cuMemcpyHtoD_v2(memory, numbers, bytes));
	TRY("launch a kernel",
	    cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
	TRY("copy from the GPU", cuMemcpyDtoH_v2(numbers, memory, bytes));
	return 0;
}

static void explain(struct finding *f, const char *step, CUresult r)
{
	const char *name = NULL, *fix = "paracuda doctor (on the host)";

	if (cuGetErrorName(r, &name) || !name)
		name = "unknown error";
	if (r == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
		fix = REINSTALL " && " RELOAD;
	else if (r == CUDA_ERROR_NO_DEVICE || r == CUDA_ERROR_SYSTEM_NOT_READY)
		fix = "paracuda-doctor device node channel";
	bad(f, fix, "%s: %s", step, name);
}

void check_computation(struct finding *f)
{
	static uint32_t numbers[NUMBERS];
	const char *step = "initialise CUDA", *missing = find();
	char name[128] = "";
	CUresult r;
	int device;

	if (missing) {
		bad(f, "paracuda-doctor library", "there is no %s", missing);
		return;
	}
	for (uint32_t i = 0; i < NUMBERS; i++)
		numbers[i] = i;
	r = cuInit(0);
	if (!r)
		r = cuDeviceGet(&device, 0);
	if (!r)
		r = cuDeviceGetName(name, sizeof(name) - 1, device);
	if (!r)
		r = square(numbers, &step);
	if (r) {
		explain(f, step, r);
		return;
	}
	for (uint32_t i = 0; i < NUMBERS; i++) {
		if (numbers[i] != i * i) {
			bad(f, "paracuda doctor (on the host)", "%u squared is %u on %s", i,
			    numbers[i], name);
			return;
		}
	}
	good(f, "right, on %s", name);
}
