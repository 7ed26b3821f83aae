#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a kernel with NVRTC, whose library is the argument, and runs it. NVRTC's errors and logs
must be its own."""
import ctypes
import glob
import os
import sys

SOURCE = b'extern "C" __global__ void twice(int *v) { v[threadIdx.x] *= 2; }'
BROKEN = b'extern "C" __global__ void twice(int *v) { v[threadIdx.x] *= two; }'
COMPILATION = 6  # NVRTC_ERROR_COMPILATION

# NVRTC opens this by its name.
builtins = [ctypes.CDLL(f)
            for f in glob.glob(os.path.join(os.path.dirname(sys.argv[1]),
                                            "libnvrtc-builtins.so.*.*"))]
nvrtc = ctypes.CDLL(sys.argv[1])
cuda = ctypes.CDLL("libcuda.so.1")


def check(result, want=0):
    assert result == want, (result, want)


def build(source, options, want=0):
    """Returns the log and, if there is one, the PTX."""
    program, size, ptx = ctypes.c_void_p(), ctypes.c_size_t(), None
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"source.cu", 0, None, None))
    check(nvrtc.nvrtcCompileProgram(program, len(options),
                                    (ctypes.c_char_p * len(options))(*options)), want)
    check(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetProgramLog(program, log))
    if not want:
        check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
        ptx = ctypes.create_string_buffer(size.value)
        check(nvrtc.nvrtcGetPTX(program, ptx))
    check(nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))
    return log.value.decode(), ptx


def run(ptx):
    context, module, f, p = (ctypes.c_void_p() for _ in range(4))
    v = (ctypes.c_int * 32)(*range(32))
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuModuleLoadData(ctypes.byref(module), ptx))
    check(cuda.cuModuleGetFunction(ctypes.byref(f), module, b"twice"))
    check(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(128)))
    check(cuda.cuMemcpyHtoD_v2(p, v, ctypes.c_size_t(128)))
    args = (ctypes.c_void_p * 1)(ctypes.addressof(p))
    check(cuda.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, None, args, None))
    check(cuda.cuMemcpyDtoH_v2(v, p, ctypes.c_size_t(128)))
    assert list(v) == [2 * i for i in range(32)], list(v)


log, _ = build(BROKEN, [b"--gpu-architecture=compute_75"], COMPILATION)
assert 'source.cu(1): error: identifier "two" is undefined' in log, log
build(SOURCE, [b"--no-such-option"], 5)  # NVRTC_ERROR_INVALID_OPTION
run(build(SOURCE, [b"--gpu-architecture=compute_75"])[1])
print("compiled and run")
