/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy ROUNDS [UP GATE]: copies to the GPU, computes there, copies back and compares, so many times
 * (0: without end). With two files more it makes the first when it has a context, and goes on when
 * there is the other. Exit code 9: what came back is wrong; 3: a call failed, which it names.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES (2ul << 20) /* less goes by the ring: no mover copies it */
#define WORDS (BYTES / sizeof(unsigned int))
#define THREADS 256
#define BLOCKS 16
#define WRONG 9
#define FAILED 3

static const char code[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			   ".visible .entry add(.param .u64 p, .param .u32 n) {\n"
			   ".reg .b32 %r<6>;\n.reg .b64 %q<4>;\n"
			   "ld.param.u64 %q1, [p];\nld.param.u32 %r1, [n];\n"
			   "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\n"
			   "mov.u32 %r4, %tid.x;\nmad.lo.s32 %r4, %r2, %r3, %r4;\n"
			   "mul.wide.u32 %q2, %r4, 4;\nadd.s64 %q3, %q1, %q2;\n"
			   "ld.global.u32 %r5, [%q3];\nadd.s32 %r5, %r5, %r1;\n"
			   "st.global.u32 [%q3], %r5;\nret;\n}\n";

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

static void wait_for(const char *up, const char *gate)
{
	close(open(up, O_CREAT | O_WRONLY, 0600));
	while (access(gate, F_OK))
		usleep(20000);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	unsigned int *host = malloc(BYTES), i, n;
	void *context, *module, *function;
	unsigned long device;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library || !host)
		return FAILED;
	CALL(cuInit, (unsigned int), 0);
	CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
	CALL(cuCtxSetCurrent, (void *), context);
	CALL(cuModuleLoadData, (void **, const void *), &module, code);
	CALL(cuModuleGetFunction, (void **, void *, const char *), &function, module, "add");
	CALL(cuMemAlloc_v2, (unsigned long *, size_t), &device, BYTES);
	if (argc > 3)
		wait_for(argv[2], argv[3]);
	for (n = 0; !rounds || n < (unsigned int)rounds; n++) {
		void *parameters[] = { &device, &n };

		for (i = 0; i < WORDS; i++)
			host[i] = i * 2654435761u + n;
		CALL(cuMemcpyHtoD_v2, (unsigned long, const void *, size_t), device, host, BYTES);
		CALL(cuLaunchKernel,
		     (void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		      unsigned int, unsigned int, void *, void **, void **),
		     function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL);
		CALL(cuMemcpyDtoH_v2, (void *, unsigned long, size_t), host, device, BYTES);
		for (i = 0; i < WORDS; i++)
			if (host[i] != i * 2654435761u + n + (i < BLOCKS * THREADS ? n : 0)) {
				fprintf(stderr, "round %u: word %u is wrong\n", n, i);
				return WRONG;
			}
	}
	return 0;
}
