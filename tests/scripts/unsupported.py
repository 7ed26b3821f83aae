#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls functions that aren't implemented, each several times."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for _ in range(3):
    for name in "cuCheckpointProcessLock", "cuCoredumpGetAttributeGlobal", "cuMulticastCreate":
        print(name, getattr(cuda, name)(None, None, None))
assert cuda.cuCtxSynchronize() == 0
