/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy ROUNDS [UP GATE]: copies to the GPU, computes there, copies back and compares, so many times
 * (0: without end). With two files more it makes the first when it has a context, and goes on when
 * there is the other. Exit code 9: what came back is wrong; 3: a call failed, which it names.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cuda.h"

#define BYTES (2ul << 20) /* less goes by the ring: no mover copies it */
#define WORDS (BYTES / sizeof(unsigned int))
#define THREADS 256
#define BLOCKS 16
#define WRONG 9

static const char code[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			   ".visible .entry add(.param .u64 p, .param .u32 n) {\n"
			   ".reg .b32 %r<6>;\n.reg .b64 %q<4>;\n"
			   "ld.param.u64 %q1, [p];\nld.param.u32 %r1, [n];\n"
			   "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\n"
			   "mov.u32 %r4, %tid.x;\nmad.lo.s32 %r4, %r2, %r3, %r4;\n"
			   "mul.wide.u32 %q2, %r4, 4;\nadd.s64 %q3, %q1, %q2;\n"
			   "ld.global.u32 %r5, [%q3];\nadd.s32 %r5, %r5, %r1;\n"
			   "st.global.u32 [%q3], %r5;\nret;\n}\n";

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
	unsigned long device;
	void *function;

	if (!host)
		return FAILED;
	use_gpu();
	function = load_kernel(code, "add");
	CALL(cuMemAlloc_v2, (unsigned long *, size_t), &device, BYTES);
	if (argc > 3)
		wait_for(argv[2], argv[3]);
	for (n = 0; !rounds || n < (unsigned int)rounds; n++) {
		void *parameters[] = { &device, &n };

		for (i = 0; i < WORDS; i++)
			host[i] = i * 2654435761u + n;
		CALL(cuMemcpyHtoD_v2, (unsigned long, const void *, size_t), device, host, BYTES);
		launch(function, BLOCKS, THREADS, parameters);
		CALL(cuMemcpyDtoH_v2, (void *, unsigned long, size_t), host, device, BYTES);
		for (i = 0; i < WORDS; i++)
			if (host[i] != i * 2654435761u + n + (i < BLOCKS * THREADS ? n : 0)) {
				fprintf(stderr, "round %u: word %u is wrong\n", n, i);
				return WRONG;
			}
	}
	return 0;
}
