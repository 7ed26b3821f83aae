# SPDX-License-Identifier: Apache-2.0
"""Usage: twovms.py native|guest

torch_several.py as two processes on two machines that train together over TCP: natively, where NCCL
takes the two for machines of their own, or each in a VM of its own, whose network cards a line
connects. Each has a GPU of its own, if the host has two, else they share one, as with ONE_GPU=1.
Prints what the first one prints, and says how both ended. The VMs are run by PARACUDA, the bundle's
program, with its kernel 7.2-threads, which has a network card. MEM and CPUS are each VM's (6G, 4).
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from sections import report

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "torch_several.py"
KERNEL = "uml-7.2-threads"
CARD = "vec0"
SIDE = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)


def gpus():
    """The GPU of each process."""
    if os.environ.get("ONE_GPU"):
        return [0, 0]
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return [0, 1] if listed.stdout.count("GPU ") > 1 else [0, 0]


def native(folder):
    """The two processes, of which NCCL is told that they are on two machines."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    for rank, gpu in enumerate(gpus()):
        env = {"CUDA_VISIBLE_DEVICES": str(gpu), "NCCL_HOSTID": f"machine{rank}",
               "NCCL_SOCKET_IFNAME": "lo"}
        yield [sys.executable, str(PROGRAM), "remote", str(rank), "127.0.0.1", port], env, ()


def guest(folder):
    """The two VMs. User Mode Linux has one end each of a pair of sockets as its network card."""
    kernel = Path(os.environ["PARACUDA_CACHE"]) / KERNEL
    for rank, (gpu, end) in enumerate(zip(gpus(), socket.socketpair(socket.AF_UNIX,
                                                                    socket.SOCK_DGRAM))):
        fd = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100)  # none that the VM gives to others
        end.close()
        cache = Path(folder) / str(rank)
        carded = cache / KERNEL
        carded.mkdir(parents=True)
        shutil.copy(kernel / "release", carded)
        card = f"{CARD}:transport=fd,fd={fd},mtu=9000,mac=52:54:00:00:00:0{rank}"
        (carded / "linux").write_text(f'#!/bin/sh\nexec {kernel / "linux"} {card} "$@"\n')
        (carded / "linux").chmod(0o755)
        yield [os.environ["PARACUDA"], "run", "--vm", "uml", "--kernel", KERNEL[len("uml-"):],
               "--gpu", f"cuda:{gpu}", "--mem", os.environ.get("MEM", "6G"),
               "--cpus", os.environ.get("CPUS", "4"), "--",
               sys.executable, str(HERE.parent / "scripts/line.py"), "-", f"10.0.0.{1 + rank}",
               sys.executable, str(PROGRAM), "remote", str(rank), "10.0.0.1", "7000"], {
                   "PARACUDA_CACHE": str(cache), "NCCL_SOCKET_IFNAME": CARD}, (fd,)


def main():
    with tempfile.TemporaryDirectory() as folder:
        both, pair = [], {"native": native, "guest": guest}[SIDE]
        for rank, (command, env, kept) in enumerate(pair(folder)):
            both.append(subprocess.Popen(
                command, env=dict(os.environ) | env, pass_fds=kept, stdin=subprocess.DEVNULL,
                stdout=sys.stdout if rank == 0 else subprocess.DEVNULL))
            for fd in kept:
                os.close(fd)
        codes = [one.wait() for one in both]
    report("both end well", codes, error=None if codes == [0, 0] else f"{codes}")
    sys.exit(codes != [0, 0])


main()
