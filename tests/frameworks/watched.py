#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: watched.py SECONDS PROGRAM [ARGUMENT]...

Runs a program. If it hasn't ended after SECONDS, prints to standard error where each of its threads
is: the system call, and what looks like return addresses on its stack, as LIBRARY+OFFSET
(`addr2line -fe LIBRARY OFFSET` names the functions). Python programs that import `sections` then
also print their Python stacks. The program goes on, and watched.py ends with its exit code.
"""

import bisect
import ctypes
import os
import re
import struct
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
ATTACH, DETACH, GETREGS = 16, 17, 12
WALL = 0x40000000
RAX, ORIG_RAX, RIP, RSP = 10, 15, 16, 19  # places in struct user_regs_struct of x86-64
DEPTH = 32 << 10  # bytes of the stack that are read
FRAMES = 24


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError as e:
        return f"({e.strerror})"


def family(pid):
    """A process and its descendants."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        parent = re.search(r"^PPid:\s*(\d+)", read(f"/proc/{name}/status"), re.M)
        if parent:
            children.setdefault(int(parent[1]), []).append(int(name))
    found = [pid]
    for p in found:
        found += children.get(p, [])
    return found


class Code:
    """The parts of a process's memory that are code, by file."""

    def __init__(self, pid):
        self.ranges = []
        for line in read(f"/proc/{pid}/maps").splitlines():
            m = re.match(r"(\w+)-(\w+) ..x. (\w+) \S+ \d+ +(/.*)", line)
            if m:
                self.ranges.append((int(m[1], 16), int(m[2], 16), int(m[3], 16), m[4]))

    def name(self, address):
        i = bisect.bisect(self.ranges, (address, 1 << 64)) - 1
        if i < 0 or address >= self.ranges[i][1]:
            return None
        start, _, offset, file = self.ranges[i]
        return f"{os.path.basename(file)}+{address - start + offset:#x}"


def registers(tid):
    """A thread's registers; None if it doesn't stop within a second."""
    if LIBC.ptrace(ATTACH, tid, None, None):
        return None
    end = time.monotonic() + 1
    while os.waitpid(tid, os.WNOHANG | WALL)[0] != tid:
        if time.monotonic() > end:
            return None
        time.sleep(0.001)
    regs = (ctypes.c_ulonglong * 27)()
    failed = LIBC.ptrace(GETREGS, tid, None, ctypes.byref(regs))
    return None if failed else list(regs)


def frames(pid, code, sp):
    """The words on a stack that are addresses of code, as LIBRARY+OFFSET."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as f:
            f.seek(sp)
            stack = f.read(DEPTH)
    except (OSError, OverflowError, ValueError):
        return []
    words = struct.unpack(f"<{len(stack) // 8}Q", stack[:len(stack) // 8 * 8])
    return [n for n in map(code.name, words) if n][:FRAMES]


def tell_thread(pid, tid, code):
    at = f"/proc/{pid}/task/{tid}"
    stat = read(f"{at}/stat").rsplit(") ", 1)[-1].split()
    times = f"{stat[0]}, {stat[11]}+{stat[12]} ticks" if len(stat) > 12 else "gone"
    say(f"  thread {tid} {read(f'{at}/comm').strip()}: {times}, {read(f'{at}/wchan').strip()}")
    regs = registers(tid)
    if regs:
        call = ctypes.c_longlong(regs[ORIG_RAX]).value
        say(f"    {f'system call {call}' if call >= 0 else 'no system call'}, at "
            f"{code.name(regs[RIP])}: {' '.join(frames(pid, code, regs[RSP]))}")
    LIBC.ptrace(DETACH, tid, None, None)


def tell(pid):
    for p in family(pid):
        say(f"process {p}: {read(f'/proc/{p}/cmdline').replace(chr(0), ' ')[:200]}")
        code = Code(p)
        try:
            threads = sorted(map(int, os.listdir(f"/proc/{p}/task")))
        except OSError:
            continue
        for tid in threads:
            try:
                tell_thread(p, tid, code)
            except OSError as e:
                say(f"    {e.strerror}")


def main():
    seconds = float(sys.argv[1])
    program = subprocess.Popen(sys.argv[2:], env=dict(os.environ, WATCHED_SECONDS=sys.argv[1]))
    try:
        code = program.wait(seconds)
    except subprocess.TimeoutExpired:
        say(f"watched: {' '.join(sys.argv[2:])} hasn't ended after {seconds:g} s")
        tell(program.pid)
        code = program.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
