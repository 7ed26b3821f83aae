#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Launches kernels that last for MICROSECONDS each, by the GPU's clock, DEPTH at a time.

It launches COUNT of them (0: until it is killed). With a DEPTH above 1, it launches the next ones
before it waits for those. With REST, it sleeps for REST seconds after each wait. Prints "ready"
when the first are over, and at the end how many there were.
"""
import ctypes
import sys
import time

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
    microseconds, depth, count, rest = (int(word) for word in (sys.argv[1:] + ["0", "0"])[:4])
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        result = getattr(cuda, name)(*args)
        if result:
            sys.exit(f"{name}: {result}")

    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    ns = ctypes.c_uint64(1000 * microseconds)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"spinning")
    events = [ctypes.c_void_p(), ctypes.c_void_p()]
    for event in events:
        call("cuEventCreate", ctypes.byref(event), 0)

    def launch(event):
        for _ in range(depth):
            call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
        call("cuEventRecord", event, None)

    done = 0
    launch(events[0])
    while not count or done < count:
        if depth > 1:
            launch(events[1])
        call("cuEventSynchronize", events[0])
        if not done:
            print("ready", flush=True)
        done += depth
        time.sleep(rest)
        if depth > 1:
            events.reverse()
        elif not count or done < count:
            launch(events[0])
    call("cuCtxSynchronize")
    print(done)


main()
