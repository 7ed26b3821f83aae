#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: line.py MODULES ADDRESS PROGRAM [ARGUMENT]...

Runs a program in a throw-away VM with a network card. First it loads the card's driver from
MODULES, the folder of the kernel's modules ("-": the kernel has the driver), and gives the card
ADDRESS in a network of 256.
"""

import ctypes
import fcntl
import os
import platform
import socket
import struct
import sys
import time

FINIT_MODULE = 313  # x86-64
SIOCSIFADDR, SIOCSIFNETMASK, SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8916, 0x891C, 0x8913, 0x8914
IFF_UP = 1
CARDS = ("eth0", "vec0")  # of QEMU, of User Mode Linux


def load(modules):
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("net/core/failover", "drivers/net/net_failover", "drivers/net/virtio_net"):
        path = f"{modules}/kernel/{name}.ko"
        if not os.path.exists(path):
            sys.exit(f"line.py: the kernel of this VM ({platform.release()}) has no {path}")
        with open(path, "rb") as f:
            if libc.syscall(FINIT_MODULE, f.fileno(), b"", 0):
                sys.exit(f"line.py: {path}: {os.strerror(ctypes.get_errno())}")


def set_up(address):
    cards = []
    while not cards:
        time.sleep(0.1)
        cards = [card for card in CARDS if os.path.exists(f"/sys/class/net/{card}")]
    name = cards[0].encode().ljust(16, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.0")):
            place = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(s, request, name + place)
        flags = struct.unpack("16xH", fcntl.ioctl(s, SIOCGIFFLAGS, name + bytes(16))[:18])[0]
        fcntl.ioctl(s, SIOCSIFFLAGS, name + struct.pack("H14x", flags | IFF_UP))


if sys.argv[1] != "-":
    load(sys.argv[1])
set_up(sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
