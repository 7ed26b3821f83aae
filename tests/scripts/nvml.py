#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls NVML in a guest as programs do through pynvml, and as PyTorch does through ctypes.

Each answer must be true, or an error of NVML's. Prints one line for each part. The argument is the
path of nvidia-smi.
"""
import ctypes
import os
import re
import signal
import subprocess
import sys
import time

import pynvml as n

CONTEXT, MORE = 8 << 20, 64 << 20  # what a context takes of the software GPU, and an allocation

# What no VM can know: each call must return an error.
UNKNOWN = {
    "nvmlDeviceGetTemperature": [n.NVML_TEMPERATURE_GPU],
    "nvmlDeviceGetPowerUsage": [],
    "nvmlDeviceGetEnforcedPowerLimit": [],
    "nvmlDeviceGetPowerManagementLimit": [],
    "nvmlDeviceGetPowerManagementDefaultLimit": [],
    "nvmlDeviceGetTotalEnergyConsumption": [],
    "nvmlDeviceGetClockInfo": [n.NVML_CLOCK_SM],
    "nvmlDeviceGetFanSpeed": [],
    "nvmlDeviceGetPerformanceState": [],
    "nvmlDeviceGetEncoderUtilization": [],
    "nvmlDeviceGetDecoderUtilization": [],
    "nvmlDeviceGetPcieThroughput": [n.NVML_PCIE_UTIL_TX_BYTES],
    "nvmlDeviceGetCurrPcieLinkGeneration": [],
    "nvmlDeviceGetMaxPcieLinkWidth": [],
    "nvmlDeviceGetNvLinkState": [0],
    "nvmlDeviceGetSerial": [],
    "nvmlDeviceGetVbiosVersion": [],
    "nvmlDeviceGetEccMode": [],
    "nvmlDeviceGetBAR1MemoryInfo": [],
    "nvmlDeviceGetProcessUtilization": [0],
    "nvmlDeviceGetSupportedMemoryClocks": [],
    "nvmlDeviceGetAttributes": [],
    "nvmlDeviceGetGpuInstanceId": [],
    "nvmlDeviceSetPersistenceMode": [1],
    "nvmlDeviceSetComputeMode": [0],
    "nvmlDeviceResetGpuLockedClocks": [],
}


def refused(want, function, *args):
    """Checks that a call ends with that error of NVML's."""
    try:
        got = function(*args)
    except n.NVMLError as e:
        assert e.value == want, (function, e)
        return
    raise AssertionError((function, got))


def before_init():
    refused(n.NVML_ERROR_UNINITIALIZED, n.nvmlDeviceGetCount)
    lib = ctypes.CDLL("libnvidia-ml.so.1")
    assert lib.nvmlSystemGetDriverVersion(ctypes.create_string_buffer(80),
                                          80) == n.NVML_ERROR_UNINITIALIZED
    assert lib.nvmlShutdown() == n.NVML_ERROR_UNINITIALIZED
    print("uninitialised")


def handles():
    assert n.nvmlDeviceGetCount() == 1
    h = n.nvmlDeviceGetHandleByIndex(0)
    uuid, pci = n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetPciInfo(h)
    assert re.fullmatch("GPU(-[0-9a-f]+){5}", uuid), uuid
    assert pci.busId == "%08X:%02X:%02X.0" % (pci.domain, pci.bus, pci.device), pci
    for other in n.nvmlDeviceGetHandleByUUID(uuid), n.nvmlDeviceGetHandleByPciBusId(pci.busId):
        assert n.nvmlDeviceGetIndex(other) == 0
    refused(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetHandleByIndex, 1)
    refused(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetHandleByUUID,
            "GPU-00000000-0000-0000-0000-000000000000")
    refused(n.NVML_ERROR_NOT_FOUND, n.nvmlDeviceGetHandleByPciBusId, "00000000:7F:1F.0")
    refused(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetHandleByPciBusId, "nowhere")
    refused(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetName, ctypes.c_void_p(8))
    print("handles")
    return h


class Cuda:
    """The driver API as far as it is compared with NVML."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        result = getattr(self.lib, name)(*args)
        assert result == 0, (name, result)

    def number(self, name, *args, kind=ctypes.c_int):
        value = kind()
        self.call(name, ctypes.byref(value), *args)
        return value.value

    def attribute(self, number):
        return self.number("cuDeviceGetAttribute", number, 0)

    def name(self):
        text = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", text, 96, 0)
        return text.value.decode()

    def uuid(self):
        b = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetUuid_v2", b, 0)
        return re.sub("(.{8})(.{4})(.{4})(.{4})", r"GPU-\1-\2-\3-\4-", b.raw.hex())


def like_cuda(h):
    """What CUDA also tells must be the same."""
    cuda = Cuda()
    assert n.nvmlDeviceGetName(h) == cuda.name()
    assert n.nvmlDeviceGetUUID(h) == cuda.uuid()
    assert n.nvmlDeviceGetCudaComputeCapability(h) == (cuda.attribute(75), cuda.attribute(76))
    assert n.nvmlSystemGetCudaDriverVersion() == cuda.number("cuDriverGetVersion")
    assert n.nvmlDeviceGetMemoryBusWidth(h) == cuda.attribute(37)
    assert n.nvmlDeviceGetNumGpuCores(h) % cuda.attribute(16) == 0
    pci = n.nvmlDeviceGetPciInfo(h)
    assert (pci.bus, pci.device, pci.domain) == (cuda.attribute(33), cuda.attribute(34),
                                                 cuda.attribute(50))
    more = n.nvmlPciInfoExt_v1_t(version=n.nvmlPciInfoExt_v1)
    n.nvmlDeviceGetPciInfoExt(h, ctypes.byref(more))
    assert more.busId == pci.busId, more.busId
    total = cuda.number("cuDeviceTotalMem_v2", 0, kind=ctypes.c_size_t)
    for info in n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2):
        assert 0 < info.free <= info.total <= total and info.used == info.total - info.free, info
    assert re.fullmatch(r"\d+(\.\d+)+", n.nvmlSystemGetDriverVersion())
    assert n.nvmlSystemGetNVMLVersion().endswith(n.nvmlSystemGetDriverVersion())
    print("as CUDA says")
    return cuda


def processes(h, smi, cuda):
    """This process uses CUDA. A child that it forks has the device's file open, but doesn't use
    CUDA, and isn't listed. nvidia-smi says the same."""
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        found = n.nvmlDeviceGetComputeRunningProcesses(h)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert [p.pid for p in found] == [os.getpid()], found
    has = found[0].usedGpuMemory
    assert CONTEXT <= has < CONTEXT + MORE, has
    memory = ctypes.c_uint64()
    cuda.call("cuMemAlloc_v2", ctypes.byref(memory), MORE)
    time.sleep(1.1)  # an answer holds for a second
    assert n.nvmlDeviceGetComputeRunningProcesses(h)[0].usedGpuMemory == has + MORE
    assert 0 <= n.nvmlDeviceGetUtilizationRates(h).gpu <= 100
    assert n.nvmlSystemGetProcessName(os.getpid())
    assert n.nvmlDeviceGetGraphicsRunningProcesses(h) == []
    table = subprocess.run([smi], capture_output=True, text=True, check=True).stdout
    assert re.search(r"\|    0   N/A  N/A +%d      C   python3 .* %dMiB +\|\n" % (os.getpid(),
                                                                                  (has +
                                                                                   MORE) >> 20),
                                                                                   table), table
    print("processes")


def joined(h):
    """What NCCL asks about each pair of GPUs before it starts, also about a GPU and itself."""
    for what in range(5):
        assert n.nvmlDeviceGetP2PStatus(h, h, what) == n.NVML_P2P_STATUS_NOT_SUPPORTED, what
    refused(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetP2PStatus, h, h, 99)
    refused(n.NVML_ERROR_INVALID_ARGUMENT, n.nvmlDeviceGetP2PStatus, h, ctypes.c_void_p(8), 0)
    assert n.nvmlDeviceOnSameBoard(h, h) == 1
    fabric = n.c_nvmlGpuFabricInfoV_t()
    n.nvmlDeviceGetGpuFabricInfoV(h, ctypes.byref(fabric))
    assert fabric.state == n.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED
    processors = sum(bin(word).count("1") for word in n.nvmlDeviceGetCpuAffinity(h, 16))
    assert processors == os.cpu_count(), processors
    print("joined to nothing")


def unknown(h):
    for name, args in UNKNOWN.items():
        refused(n.NVML_ERROR_NOT_SUPPORTED, getattr(n, name), h, *args)
    for field in n.nvmlDeviceGetFieldValues(h,
                                            [n.NVML_FI_DEV_MEMORY_TEMP,
                                             n.NVML_FI_DEV_POWER_INSTANT]):
        assert field.nvmlReturn == n.NVML_ERROR_NOT_SUPPORTED
    print("what isn't known says so")


def every_function():
    """The library has each function that pynvml knows: none is "not found"."""
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', open(n.__file__).read()))
    assert len(names) > 300, len(names)
    lib = ctypes.CDLL("libnvidia-ml.so.1")
    missing = [name for name in sorted(names) if not hasattr(lib, name)]
    assert not missing, missing
    print("every function is there")


def as_pytorch():
    """What torch.cuda.device_count() calls with PYTORCH_NVML_BASED_CUDA_CHECK, in a process that
    may fork later."""
    lib, count, handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_int(-1), ctypes.c_void_p()
    uuid = ctypes.create_string_buffer(96)
    assert lib.nvmlInit() == 0
    assert lib.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value == 1
    assert lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
    assert lib.nvmlDeviceGetUUID(handle, uuid, 96) == 0
    child = os.fork()
    if child == 0:
        Cuda()  # NVML has not initialised CUDA in the parent
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print("as PyTorch asks")


def main():
    before_init()
    as_pytorch()
    n.nvmlInit()
    h = handles()
    cuda = like_cuda(h)
    processes(h, sys.argv[1], cuda)
    joined(h)
    unknown(h)
    every_function()
    n.nvmlShutdown()


sys.exit(main())
