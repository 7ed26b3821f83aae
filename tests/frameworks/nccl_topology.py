# SPDX-License-Identifier: Apache-2.0
"""Usage: nccl_topology.py

NCCL alone, without a framework: a process for each GPU, two at least, an all_reduce, and how NCCL
sees the GPUs and their NVLinks. In a guest NCCL reads the topology file that the guest package
would write. Environment:
  NCCL_LIB   libnccl.so.2 (the one of Python's package nvidia-nccl)

NCCL_NVLS_ENABLE is 0: no multicast object is made.
"""

import ctypes
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from array import array
from collections import Counter
from pathlib import Path

from gpucount import gpu_count
from sections import report

COUNT = 1 << 20
FLOAT, SUM = 7, 0  # ncclDataType_t, ncclRedOp_t
LIMIT = 90  # seconds
GUEST = os.path.exists("/dev/paracuda")


class UniqueId(ctypes.Structure):
    """ncclUniqueId"""
    _fields_ = [("bytes", ctypes.c_char * 128)]


def library():
    """The path of NCCL."""
    if "NCCL_LIB" in os.environ:
        return os.environ["NCCL_LIB"]
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        spec = None
    for folder in spec.submodule_search_locations if spec else ():
        for path in glob.glob(f"{folder}/lib/libnccl.so.*"):
            return path
    return "libnccl.so.2"


def call(of, name, *args):
    result = getattr(of, name)(*args)
    if result:
        sys.exit(f"{name}: {result}")


def told(path):
    """What another process writes to a file, once it is there."""
    end = time.monotonic() + LIMIT
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"there is no {path}")
        time.sleep(0.01)
    return path.read_bytes()


def unique_id(nccl, folder, rank):
    """The first process makes it, and tells it to the others."""
    made = UniqueId()
    if rank == 0:
        call(nccl, "ncclGetUniqueId", ctypes.byref(made))
        (folder / "new").write_bytes(bytes(made))
        (folder / "new").rename(folder / "id")
    return UniqueId.from_buffer_copy(told(folder / "id"))


def work(rank, world, folder):
    """One process: prints the sum that it has got of all, of the first and of the last number."""
    cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(library())
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
    context, comm, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    numbers = array("f", ((i % 1000) * (rank + 1) for i in range(COUNT)))
    size = ctypes.c_size_t(COUNT * 4)
    call(cuda, "cuInit", 0)
    call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), rank)
    call(cuda, "cuCtxSetCurrent", context)
    call(nccl, "ncclCommInitRank", ctypes.byref(comm), world, unique_id(nccl, folder, rank), rank)
    call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), size)
    call(cuda, "cuMemcpyHtoD_v2", memory, numbers.tobytes(), size)
    call(nccl, "ncclAllReduce", memory, memory, COUNT, FLOAT, SUM, comm, None)
    call(cuda, "cuCtxSynchronize")
    back = ctypes.create_string_buffer(COUNT * 4)
    call(cuda, "cuMemcpyDtoH_v2", back, memory, size)
    call(nccl, "ncclCommDestroy", comm)
    got = array("f", back.raw)
    wrong = sum(x != i % 1000 * world * (world + 1) // 2 for i, x in enumerate(got))
    version = ctypes.c_int()
    call(nccl, "ncclGetVersion", ctypes.byref(version))
    print(version.value, wrong, got[1], got[999])


def topology_file(folder):
    """Writes what the guest package's service writes, by the same command; returns its path."""
    ctypes.CDLL("libnvidia-ml.so.1")
    loaded = re.search(r"\S+/libnvidia-ml\.so\.\S+", Path("/proc/self/maps").read_text())
    out = subprocess.run(["/lib64/ld-linux-x86-64.so.2", loaded[0], "topology"], check=True,
                         stdout=subprocess.PIPE).stdout
    (folder / "virtualTopology.xml").write_bytes(out)
    return folder / "virtualTopology.xml"


def described(xml):
    """Each GPU's rank, number and version, and its NVLinks: how many, and to what."""
    gpus = [(pci.get("busid"), gpu) for pci in xml.iter("pci") for gpu in pci.findall("gpu")]
    ranks = {bus: int(gpu.get("rank", -1)) for bus, gpu in gpus}
    said = []
    for bus, gpu in sorted(gpus, key=lambda g: ranks[g[0]]):
        links = Counter()
        for link in gpu.findall("nvlink"):
            to = link.get("target")
            links[f"GPU {ranks[to]}" if to in ranks else f"class {link.get('tclass')}"] += int(
                link.get("count"))
        said.append([f"GPU {ranks[bus]}", gpu.get("dev"), gpu.get("sm"),
                     *(f"{n} to {to}" for to, n in sorted(links.items()))])
    return said


def dumped(folder):
    """How NCCL sees the GPUs."""
    path = folder / "dump.xml"
    if not path.exists():
        raise RuntimeError("NCCL has dumped no topology")
    return described(ElementTree.fromstring(path.read_text()))


def read_file(log, path):
    """Whether NCCL has read the topology file that it was given."""
    return not path or f"Loading topology file {path}" in log


def section(name, function, *args):
    try:
        report(name, function(*args))
    except Exception as e:  # pylint: disable=broad-except
        report(name, error=f"{type(e).__name__}: {e}"[:300])


def lead():
    world = gpu_count()
    if world < 2:
        sys.exit("nccl_topology: there are not two GPUs")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = dict(os.environ, NCCL_NVLS_ENABLE="0", NCCL_SOCKET_IFNAME="lo", NCCL_DEBUG="INFO",
                   NCCL_DEBUG_SUBSYS="INIT,ENV,GRAPH,P2P,SHM,NET",
                   NCCL_DEBUG_FILE=f"{folder}/log.%p",
                   NCCL_TOPO_DUMP_FILE=str(folder / "dump.xml"))
        path = topology_file(folder) if GUEST else None
        if path:
            env["NCCL_TOPO_FILE"] = str(path)
        ranks = [subprocess.Popen([sys.executable, __file__, str(i), str(world), name], env=env,
                                  stdout=subprocess.PIPE, text=True) for i in range(world)]
        outs = []
        for r in ranks:
            try:
                outs.append(r.communicate(timeout=LIMIT)[0].split())
            except subprocess.TimeoutExpired:
                r.kill()
        codes = [r.wait() for r in ranks]
        log = "".join(open(f, errors="replace").read() for f in glob.glob(f"{folder}/log.*"))
        right = codes == [0] * world and all(out[1] == "0" for out in outs)
        report("all_reduce: NCCL's version, wrong numbers, two numbers, of each", outs,
               error=None if right else f"{codes}, {outs}")
        section("the way", lambda: sorted(set(re.findall(r"via (\S+)", log))))
        section("GPUs and NVLinks as NCCL sees them", dumped, folder)
        good = read_file(log, path)
        report("a topology file is read where there is one", good,
               error=None if good else "NCCL's log doesn't name it")
        if not right or not good:
            print("\n".join(log.splitlines()[-60:]), file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        work(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    elif len(sys.argv) == 1:
        lead()
    else:
        sys.exit(__doc__)
