# SPDX-License-Identifier: Apache-2.0
"""How many GPUs a program that starts now would have."""

import subprocess
import sys

_ASK = """
import ctypes
cuda, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
if not cuda.cuInit(0):
    cuda.cuDeviceGetCount(ctypes.byref(n))
print(n.value)
"""


def gpu_count():
    """Asks a process of its own, so that this one has nothing of the GPUs."""
    out = subprocess.run([sys.executable, "-c", _ASK], stdout=subprocess.PIPE, check=True).stdout
    return int(out)
