# SPDX-License-Identifier: Apache-2.0
"""NVML: what libraries ask it before they start, through ctypes as they do it without Python."""

import ctypes
import re

from nvml_pairs import facts
from sections import run, section

LIB = ctypes.CDLL("libnvidia-ml.so.1")
FIRST = ctypes.c_void_p()


def number(name, *args):
    """The result of a function that writes a number, and the number."""
    value = ctypes.c_uint()
    result = getattr(LIB, name)(FIRST, *args, ctypes.byref(value))
    return [result, value.value if result == 0 else 0]


def text(name):
    room = ctypes.create_string_buffer(96)
    return [getattr(LIB, name)(FIRST, room, 96), room.value.decode()]


@section("start")
def start():
    count = ctypes.c_uint()
    results = [LIB.nvmlInit_v2(), LIB.nvmlDeviceGetCount_v2(ctypes.byref(count))]
    return results + [LIB.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(FIRST)), count.value]


@section("identity")
def identity():
    major, minor = ctypes.c_int(), ctypes.c_int()
    ask = LIB.nvmlDeviceGetCudaComputeCapability
    result = ask(FIRST, ctypes.byref(major), ctypes.byref(minor))
    asked = "Architecture", "NumGpuCores", "MemoryBusWidth"
    numbers = [number("nvmlDeviceGet" + name) for name in asked]
    names = text("nvmlDeviceGetName") + text("nvmlDeviceGetUUID")
    return [*names, result, major.value, minor.value, *numbers]


@section("numbers of the PCI device")
def pci():
    info = (ctypes.c_uint * 17)()
    return [LIB.nvmlDeviceGetPciInfo_v3(FIRST, info), hex(info[7]), hex(info[8])]


@section("PCI Express link")
def link():
    names = ("CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkGeneration",
             "MaxPcieLinkWidth", "GpuMaxPcieLinkGeneration", "PcieLinkMaxSpeed", "PcieSpeed",
             "BusType")
    return [number("nvmlDeviceGet" + n) for n in names]


@section("itself as a peer")
def peer():
    status = [number("nvmlDeviceGetP2PStatus", FIRST, what) for what in range(5)]
    return status + number("nvmlDeviceOnSameBoard", FIRST)


@section("NVLinks")
def nvlinks():
    return [number("nvmlDeviceGetNvLinkState", i) for i in range(18)] + \
           [number("nvmlDeviceGetNvLinkCapability", i, 0) for i in range(18)]


class Field(ctypes.Structure):
    """nvmlFieldValue_t"""
    _fields_ = [("id", ctypes.c_uint), ("scope", ctypes.c_uint), ("time", ctypes.c_longlong * 2),
                ("type", ctypes.c_uint), ("result", ctypes.c_uint), ("value", ctypes.c_ulonglong)]


def field(number_of, scope=0):
    f = Field(id=number_of, scope=scope)
    LIB.nvmlDeviceGetFieldValues(FIRST, 1, ctypes.byref(f))
    return [f.result, f.value & 0xffffffff if f.result == 0 else 0]


@section("other ends of NVLinks")
def remote_ends():
    ends = []
    for i in range(18):
        info = (ctypes.c_uint * 17)()
        result = LIB.nvmlDeviceGetNvLinkRemotePciInfo_v2(FIRST, i, info)
        ends.append([number("nvmlDeviceGetNvLinkVersion", i),
                     number("nvmlDeviceGetNvLinkRemoteDeviceType", i), result, *info[4:7]])
    return ends


@section("fields of NVLinks")
def link_fields():
    return [[field(164, i), field(165, i), field(166, i)] for i in range(18)] + \
           [field(n) for n in (84, 90, 91, 147)]


@section("each GPU, and each pair")
def pairs():
    """What must be the same in a VM that has the host's GPUs in the same order."""
    own = re.compile("near|ancestor|PCI class|total memory")
    return sorted(f"{name}: {value}" for name, value in facts().items() if not own.search(name))


@section("fabric and confidential computing")
def records():
    fabric = (ctypes.c_uint * 9)(36 | 2 << 24)
    state = (ctypes.c_uint * 3)()
    settings = (ctypes.c_uint * 5)(20 | 1 << 24)
    results = [LIB.nvmlDeviceGetGpuFabricInfoV(FIRST, fabric),
               LIB.nvmlSystemGetConfComputeState(state),
               LIB.nvmlSystemGetConfComputeSettings(settings)]
    return results + [list(fabric), list(state), list(settings)]


if __name__ == "__main__":
    run()
