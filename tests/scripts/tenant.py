#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives the GPU kernels that last for a time by its clock: MICROSECONDS each, DEPTH at a time, until it is killed, or
COUNT of them. Prints "ready" when the first is over, and at the end how many have ended."""
import ctypes
import sys

PTX = b""".version 7.0
.target sm_75
.address_size 64
.visible .entry spinning(.param .u64 ns)
{
	.reg .b64 %rd<5>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [ns];
	mov.u64 %rd2, %globaltimer;
again:
	mov.u64 %rd3, %globaltimer;
	sub.s64 %rd4, %rd3, %rd2;
	setp.lt.u64 %p1, %rd4, %rd1;
	@%p1 bra again;
	ret;
}
"""


def main():
    microseconds, depth, count = (int(word) for word in (sys.argv[1:] + ["0"])[:3])
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        result = getattr(cuda, name)(*args)
        if result:
            sys.exit(f"{name}: {result}")

    context, module, function, ns = (ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(),
                                     ctypes.c_uint64(1000 * microseconds))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"spinning")
    done = 0
    while not count or done < count:
        for _ in range(depth):
            call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
        call("cuCtxSynchronize")
        if not done:
            print("ready", flush=True)
        done += depth
    print(done)


main()
