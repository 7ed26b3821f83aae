# SPDX-License-Identifier: Apache-2.0
"""Measures a program's start with the driver API: cuInit, a context, the first launch and
synchronisation."""

import ctypes
import time

from sections import report

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
"""


def main():
    begin = time.perf_counter()
    cuda = ctypes.CDLL("libcuda.so.1")
    report("load libcuda.so.1", seconds=time.perf_counter() - begin)
    total = 0.0

    def timed(name, *calls):
        nonlocal total
        begin = time.perf_counter()
        results = [call() for call in calls]
        total += time.perf_counter() - begin
        report(name, value=results, seconds=time.perf_counter() - begin)

    context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
    timed("cuInit", lambda: cuda.cuInit(0))
    timed("primary context", lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
          lambda: cuda.cuCtxSetCurrent(context))
    report("cuInit and primary context", value=0, seconds=total)
    timed("load a module", lambda: cuda.cuModuleLoadData(ctypes.byref(module), PTX),
          lambda: cuda.cuModuleGetFunction(ctypes.byref(function), module, b"nothing"))

    def launch():
        one = ctypes.c_uint(1)
        return cuda.cuLaunchKernel(function, one, one, one, one, one, one, ctypes.c_uint(0), None,
                                   None, None)

    timed("first launch, synchronised", launch, cuda.cuCtxSynchronize)
    timed("another launch, synchronised", launch, cuda.cuCtxSynchronize)
    timed("allocate 1 MiB",
          lambda: cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)))
    report("all of these", value=0, seconds=total)


if __name__ == "__main__":
    main()
