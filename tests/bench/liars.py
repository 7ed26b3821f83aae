# SPDX-License-Identifier: Apache-2.0
"""What attacks an arbiter: VMs that lie to it, and others that have its socket."""

import array
import contextlib
import ctypes
import fcntl
import json
import mmap
import multiprocessing
import os
import pathlib
import socket
import struct
import time

ENTRIES, ENTRY, PAGE = 4096, 64, 8192  # of a gate's page: see gpubackend/gate


class Gate:
    """A gate's page and its events, made here, as a device process passes them on."""

    def __init__(self):
        libc = ctypes.CDLL(None)
        self.memory = os.memfd_create("gate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.memory, PAGE)
        fcntl.fcntl(self.memory, 1033, 1 | 2 | 4)  # F_ADD_SEALS: no more, no shrinking, no growing
        flags = os.O_CLOEXEC | os.O_NONBLOCK
        self.bell, self.opened = libc.eventfd(0, flags), libc.eventfd(0, flags)
        self.page = mmap.mmap(self.memory, PAGE)

    def lie(self, waiting, flight, entry=7):
        struct.pack_into("<II", self.page, ENTRIES + entry * ENTRY, waiting, flight)

    def ring(self):
        with contextlib.suppress(BlockingIOError):
            os.write(self.bell, struct.pack("<Q", 1))

    def close(self):
        self.page.close()
        for fd in (self.memory, self.bell, self.opened):
            os.close(fd)


def connect(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(5)
    s.connect(path)
    return s


def join(path, name, gpus, gate):
    """Has a VM take part under a name, with our gate, until what it returns is closed."""
    s = connect(path)
    request = {"version": 1, "kind": "join", "name": name, "gpus": gpus, "policy": {}}
    fds = array.array("i", [gate.memory, gate.bell, gate.opened])
    s.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    answer = json.loads(s.recv(1 << 17))
    return s, answer.get("error")


def come_and_go(path, gpus, name):
    gate = Gate()
    while True:
        with contextlib.suppress(OSError):
            gate.lie(1, 1)
            join(path, name, gpus, gate)[0].close()


def flood(path):
    while True:
        with contextlib.suppress(OSError):
            with connect(path) as s:
                for message in (b'{"version":1,"kind":"list"}', b"\0" * 1000, b'{"version":9}'):
                    s.send(message)


def without_end(path, gpus, bells):
    """A worker that never says that its work has ended; with bells, it rings all the time."""
    gate = Gate()
    _held, error = join(path, "liar", gpus, gate)
    while not error:
        gate.lie(1, 1)
        for _ in range(1000 if bells else 0):
            gate.ring()
        time.sleep(0 if bells else 2e-5)


def hide(pid):
    """Marks a worker as having no work, again and again."""
    folder = pathlib.Path(f"/proc/{pid}/fd")
    for fd in folder.iterdir():
        if "paracuda-gate" in os.readlink(fd):
            with open(fd, "r+b") as f, mmap.mmap(f.fileno(), PAGE) as page:
                while True:
                    page[ENTRIES:] = bytes(PAGE - ENTRIES)
                    time.sleep(2e-5)


@contextlib.contextmanager
def process(f, *arguments):
    p = multiprocessing.get_context("fork").Process(target=f, args=arguments, daemon=True)
    p.start()
    try:
        yield p
    finally:
        p.kill()
        p.join()
