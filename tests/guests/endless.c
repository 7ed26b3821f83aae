/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endless: launches a kernel that never ends, and waits for it. Exit code 3: a call failed, which
 * it names.
 */
#include "cuda.h"

#define BYTES (4ul << 20)

static const char code[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			   ".visible .entry wait(.param .u64 p) {\n"
			   ".reg .b32 %r<2>;\n.reg .b64 %q<2>;\n.reg .pred %p<2>;\n"
			   "ld.param.u64 %q1, [p];\n"
			   "AGAIN:\nld.volatile.global.u32 %r1, [%q1];\n"
			   "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra AGAIN;\nret;\n}\n";

int main(void)
{
	unsigned long device;
	void *parameters[] = { &device };
	void *function;

	use_gpu();
	function = load_kernel(code, "wait");
	CALL(cuMemAlloc_v2, (unsigned long *, size_t), &device, BYTES);
	CALL(cuMemsetD8_v2, (unsigned long, unsigned char, size_t), device, 0, BYTES);
	launch(function, 1, 1, parameters);
	CALL(cuCtxSynchronize, (void));
	return 0;
}
