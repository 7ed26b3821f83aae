# SPDX-License-Identifier: Apache-2.0
"""Usage: nvml_pairs.py [UUID]...

Prints as JSON what NVML says of GPUs, all or those named, and of every pair of them, a GPU with
itself included. Each fact has a name, in which GPUs are numbered as they are named. A call that
fails has its error as the fact. It asks through ctypes, as NCCL does.
"""

import ctypes
import json
import sys

LINKS = 18
CAPABILITIES = 6
LEVELS = {"internal": 0, "one switch": 10, "switches": 20, "host bridge": 30, "node": 40,
          "system": 50}
ACCESS = ("reads", "writes", "NVLink", "atomics", "PCI")
NUMBERS = ("Architecture", "NumGpuCores", "MemoryBusWidth", "CurrPcieLinkGeneration",
           "CurrPcieLinkWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth",
           "GpuMaxPcieLinkGeneration", "PcieLinkMaxSpeed", "PcieSpeed", "BusType")
FIELDS = {"common speed": 90, "links": 91, "links to switches": 147, "C2C links": 170}
LINK_FIELDS = {"speed": 164, "state": 165, "version": 166, "remote link": 146}
FABRICS = {"": None, " of version 2": 36 | 2 << 24, " of version 3": 40 | 3 << 24}

LIB = None


class Pci(ctypes.Structure):
    """nvmlPciInfo_t"""
    _fields_ = [("legacy", ctypes.c_char * 16), ("place", ctypes.c_uint * 3),
                ("device", ctypes.c_uint), ("subsystem", ctypes.c_uint),
                ("bus", ctypes.c_char * 32)]


class PciExt(ctypes.Structure):
    """nvmlPciInfoExt_v1_t"""
    _fields_ = [("version", ctypes.c_uint), ("place", ctypes.c_uint * 3),
                ("device", ctypes.c_uint), ("subsystem", ctypes.c_uint),
                ("kind", ctypes.c_uint * 2), ("bus", ctypes.c_char * 32)]


class Memory(ctypes.Structure):
    """nvmlMemory_t"""
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class Field(ctypes.Structure):
    """nvmlFieldValue_t"""
    _fields_ = [("id", ctypes.c_uint), ("scope", ctypes.c_uint), ("time", ctypes.c_longlong * 2),
                ("type", ctypes.c_uint), ("result", ctypes.c_uint), ("value", ctypes.c_ulonglong)]


def call(name, *args):
    """The error of a call, or None."""
    result = getattr(LIB, "nvml" + name)(*args)
    return f"error {result}" if result else None


def number(name, *args):
    value = ctypes.c_uint()
    return call(name, *args, ctypes.byref(value)) or value.value


def text(name, gpu):
    room = ctypes.create_string_buffer(96)
    return call(name, gpu, room, 96) or room.value.decode()


def field(gpu, n, scope=0):
    f = Field(id=n, scope=scope)
    error = call("DeviceGetFieldValues", gpu, 1, ctypes.byref(f))
    return error or (f"error {f.result}" if f.result else f.value & 0xffffffff)


def place(pci):
    return f"{pci.bus.decode()} {pci.device:#x} {pci.subsystem:#x}"


def of_gpu(gpu):
    """Facts of one GPU alone."""
    yield "name", text("DeviceGetName", gpu)
    yield "UUID", text("DeviceGetUUID", gpu)
    pci, ext, memory = Pci(), PciExt(version=ctypes.sizeof(PciExt) | 1 << 24), Memory()
    yield "PCI", call("DeviceGetPciInfo_v3", gpu, ctypes.byref(pci)) or place(pci)
    error = call("DeviceGetPciInfoExt", gpu, ctypes.byref(ext))
    yield "PCI again", error or place(ext)
    yield "PCI class", error or f"{ext.kind[0]:#x} {ext.kind[1]:#x}"
    major, minor = ctypes.c_int(), ctypes.c_int()
    yield "compute capability", call("DeviceGetCudaComputeCapability", gpu, ctypes.byref(major),
                                     ctypes.byref(minor)) or f"{major.value}.{minor.value}"
    yield "total memory", call("DeviceGetMemoryInfo", gpu, ctypes.byref(memory)) or memory.total
    for name in NUMBERS:
        yield name, number("DeviceGet" + name, gpu)
    for name, version in FABRICS.items():
        yield f"fabric{name}", fabric(gpu, version)
    for name, n in FIELDS.items():
        yield f"field of {name}", field(gpu, n)
    for scope, name in enumerate(("node", "socket")):
        words = (ctypes.c_ulong * 16)()
        yield f"processors near it, {name}", call(
            "DeviceGetCpuAffinityWithinScope", gpu, 16, words, scope) or " ".join(map(hex, words))
        yield f"memory near it, {name}", call(
            "DeviceGetMemoryAffinity", gpu, 16, words, scope) or " ".join(map(hex, words))


def fabric(gpu, version):
    """The bytes of the answer, in hexadecimal numbers."""
    record = (ctypes.c_ubyte * 64)()
    if version is None:
        return call("DeviceGetGpuFabricInfo", gpu, record) or bytes(record[:28]).hex()
    ctypes.c_uint.from_buffer(record).value = version
    return call("DeviceGetGpuFabricInfoV", gpu, record) or bytes(record[:version & 0xff]).hex()


def of_link(gpu, n):
    """Facts of one NVLink."""
    yield "state", number("DeviceGetNvLinkState", gpu, n)
    yield "version", number("DeviceGetNvLinkVersion", gpu, n)
    for what in range(CAPABILITIES):
        yield f"capability {what}", number("DeviceGetNvLinkCapability", gpu, n, what)
    pci = Pci()
    yield "remote type", number("DeviceGetNvLinkRemoteDeviceType", gpu, n)
    yield "remote PCI", call("DeviceGetNvLinkRemotePciInfo_v2", gpu, n,
                             ctypes.byref(pci)) or place(pci)
    for name, f in LINK_FIELDS.items():
        yield f"field of its {name}", field(gpu, f, n)
    if n < 12:
        yield "field of its own speed", field(gpu, 84 + n if n < 6 else 132 + n - 6)


def of_pair(a, b):
    for what, name in enumerate(ACCESS):
        yield name, number("DeviceGetP2PStatus", a, b, what)
    yield "same board", number("DeviceOnSameBoard", a, b)
    yield "common ancestor", number("DeviceGetTopologyCommonAncestor", a, b)


def found(gpus, ask):
    """Which of the GPUs are in an answer that lists GPUs."""
    count = ctypes.c_uint()
    error = ask(ctypes.byref(count), None)
    if error or not count.value:
        return error or []
    some = (ctypes.c_void_p * count.value)()
    error = ask(ctypes.byref(count), some)
    return error or sorted(i for i, g in enumerate(gpus) if g.value in list(some))


def facts(uuids=()):
    """All facts, by their names."""
    global LIB
    LIB = ctypes.CDLL("libnvidia-ml.so.1")
    count, all_of_it = ctypes.c_uint(), {}
    error = call("Init_v2") or call("DeviceGetCount_v2", ctypes.byref(count))
    if error:
        raise RuntimeError(f"NVML: {error}")
    gpus = [ctypes.c_void_p() for _ in uuids or range(count.value)]
    for i, gpu in enumerate(gpus):
        ask, name = ("UUID", uuids[i].encode()) if uuids else ("Index_v2", i)
        error = call(f"DeviceGetHandleBy{ask}", name, ctypes.byref(gpu))
        if error:
            raise RuntimeError(f"NVML: GPU {name}: {error}")
    state, settings = (ctypes.c_uint * 3)(), (ctypes.c_uint * 5)(20 | 1 << 24)
    all_of_it["confidential computing"] = call("SystemGetConfComputeState", state) or list(state)
    all_of_it["its settings"] = call("SystemGetConfComputeSettings", settings) or list(settings)
    all_of_it["GPUs near processor 0"] = found(
        gpus, lambda n, some: call("SystemGetTopologyGpuSet", 0, n, some))
    for i, a in enumerate(gpus):
        groups = [("", of_gpu(a)), *((f"link {n}: ", of_link(a, n)) for n in range(LINKS))]
        for group, named in groups:
            all_of_it |= {f"GPU {i}: {group}{name}": value for name, value in named}
        for name, level in LEVELS.items():
            all_of_it[f"GPU {i}: nearest GPUs, {name}"] = found(
                gpus, lambda n, some: call("DeviceGetTopologyNearestGpus", a, level, n, some))
        for j, b in enumerate(gpus):
            all_of_it |= {f"GPU {i} to GPU {j}: {name}": value for name, value in of_pair(a, b)}
    return all_of_it


if __name__ == "__main__":
    json.dump(facts(sys.argv[1:]), sys.stdout, indent=1)
    print()
