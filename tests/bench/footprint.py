# SPDX-License-Identifier: Apache-2.0
"""The host's memory that processes use, without the guest's RAM, in MiB: from /proc/PID/smaps and
status."""

import pathlib
import re

MIB = 1 << 20
ENTRY = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ (\S+ \d+)")


def mappings(pid):
    """Yields the file of each mapping (device and inode), whether it is shared, its length, and its
    share of memory in KiB."""
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text(errors="replace").splitlines():
        entry = ENTRY.match(line)
        if entry:
            begin, end, flags, file = entry.groups()
        elif line.startswith("Pss:"):
            yield file, "s" in flags, int(end, 16) - int(begin, 16), int(line.split()[1])


def largest(pid):
    """The file of which a process has mapped most: for a VM's processes the guest's RAM."""
    sizes = {}
    for file, shared, length, _ in mappings(pid):
        if shared:
            sizes[file] = sizes.get(file, 0) + length
    return max(sizes, key=sizes.get)


def page_tables(pid):
    """KiB that the kernel keeps for a process's mappings."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmPTE:\s+(\d+)", status).group(1))


def of(pid, ram):
    """MiB of a process, without its mappings of the guest's RAM, and MiB of its page tables."""
    own = sum(kib for file, _, _, kib in mappings(pid) if file != ram)
    return own * 1024 / MIB, page_tables(pid) * 1024 / MIB


def descendants(pid):
    """A process and its descendants, with their command lines."""
    parents, commands = {}, {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
        commands[int(folder.name)] = [word.decode(errors="replace") for word in command]
    found, queue = {}, [pid]
    while queue:
        here = queue.pop()
        if here in commands:
            found[here] = commands[here]
        queue += [child for child, parent in parents.items() if parent == here]
    return found
