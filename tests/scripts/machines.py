# SPDX-License-Identifier: Apache-2.0
"""VMs of QEMU's whose first process is tests/guests/stay.c, each behind its own device process.

A Place is one QEMU with its device process. A VM that is migrated goes from place to place.
"""

import json
import os
import re
import shlex
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

TOP = next((p for p in Path(__file__).resolve().parents if (p / "bin/paracuda").exists()), None)
if TOP is None:
    raise SystemExit("there is no bin/paracuda: run make build")

PARACUDA = TOP / "bin/paracuda"
# A bundle has its own downloads.
CACHE = TOP / "cache" if (TOP / "cache").is_dir() else Path(
    os.environ.get("PARACUDA_CACHE", Path.home() / ".cache/paracuda"))
BUILD = Path(os.environ.get("PARACUDA_BUILD", TOP / "build"))
ENV = dict(os.environ, PARACUDA_CACHE=str(CACHE), PARACUDA_BUILD=str(BUILD))
KERNEL = CACHE / "linux-6.1"
# What takes an emulated processor long is left out, as by package vm.
APPEND = ("console=ttyS0 mitigations=off tsc=reliable no_timer_check cryptomgr.notests audit=0 "
          "apparmor=0 8250.nr_uarts=1 quiet")
MEMORY = "512M"
DRIVERS = ["virtio", "virtio_ring", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"]
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


class Failure(Exception):
    """Something isn't as it should be."""


def until(limit, what, ready):
    """Waits until ready() is true, for so many seconds; returns that."""
    end = time.monotonic() + limit
    while not (found := ready()):
        if time.monotonic() > end:
            raise Failure(f"{what}: not after {limit:.0f} s")
        time.sleep(0.01)
    return found


def stays(home):
    """Compiles the guest's first process."""
    program = home / "stay"
    subprocess.run(["cc", "-O1", "-o", program, TOP / "tests/guests/stay.c"], check=True)
    return program


def libraries(program):
    """The shared libraries of a program, and its loader."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return set(LIBRARY.findall(said))


def initramfs(home, programs):
    """Makes the guest's files: the driver, the library, and programs in /gpu."""
    release = (KERNEL / "release").read_text().strip()
    modules = [KERNEL / f"modules/kernel/drivers/virtio/{m}.ko" for m in DRIVERS]
    modules.append(BUILD / f"modules/{release}/paracuda.ko")
    first, cuda = stays(home), BUILD / "guest/lib/libcuda.so.1"
    files = {"init": first, "gpu/libcuda.so.1": cuda}
    files |= {f"gpu/{p.name}": p for p in programs}
    files |= {f"modules/{m.name}": m for m in modules}
    for program in [first, cuda, *programs]:
        files |= {name[1:]: Path(name) for name in libraries(program)}
    image = home / "initramfs"
    with open(image, "wb") as out:
        for folder in sorted({str(p) for name in [*files, "dev/null"] for p in Path(name).parents}):
            out.write(entry(folder, stat.S_IFDIR | 0o755))
        for name, file in files.items():
            out.write(entry(name, stat.S_IFREG | 0o755, file.read_bytes()))
        names = "".join(f"/modules/{m.name}\n" for m in modules)
        out.write(entry("modules/list", stat.S_IFREG | 0o644, names.encode()))
        out.write(entry("TRAILER!!!", 0))
    return image


def entry(name, mode, content=b""):
    """A file in an archive as the kernel wants it (cpio's format newc)."""
    words = [0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % w for w in words) + name.encode() + b"\0"
    return padded(head) + padded(content)


def padded(data):
    return data + bytes(-len(data) % 4)


def connect(path, limit):
    """Connects to a socket of QEMU's, which may not be there yet."""
    def ready():
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(str(path))
        except OSError:
            s.close()
            return None
        return s
    return until(limit, f"QEMU's socket {path.name}", ready)


class QMP:
    """QEMU's monitor. Of each kind of event it keeps the last one's time."""

    def __init__(self, path, limit):
        self.events = {}
        self.socket = connect(path, limit)
        self.socket.settimeout(limit)
        self.lines = self.socket.makefile()
        self.lines.readline()  # its greeting
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        try:
            for line in self.lines:
                answer = json.loads(line)
                if "event" in answer:
                    at = answer["timestamp"]
                    self.events[answer["event"]] = at["seconds"] + at["microseconds"] / 1e6
                elif "error" in answer:
                    raise Failure(f"QEMU: {command}: {answer['error']['desc']}")
                else:
                    return answer["return"]
        except OSError as err:
            raise Failure(f"QEMU: {command}: {err}") from err
        raise Failure(f"QEMU: {command}: it has ended")

    def monitor(self, line):
        """Gives a command of the human monitor's. No answer means that all is well."""
        said = self.ask("human-monitor-command", **{"command-line": line}).strip()
        if said:
            raise Failure(f"QEMU: {line}: {said}")

    def last(self, event):
        """When there was such an event the last time."""
        self.ask("query-status")  # whatever was before it has been read then
        return self.events.get(event, 0)

    def runs(self):
        return self.ask("query-status")["running"]


def device_options(path):
    """The options that connect QEMU with a device process, as that process's help names them."""
    said = subprocess.run([PARACUDA, "device", "--help"], capture_output=True, text=True,
                          check=True).stdout
    text = re.search(r"QEMU connects with\n(.*?)\nIt ends", said, re.DOTALL)[1]
    return [word.replace("PATH", str(path)) for word in shlex.split(text.replace("\\\n", ""))]


class Place:
    """One QEMU with its device process, in a folder of its own.

    options are QEMU's, beside the usual ones. Without -incoming it boots a VM. heard gets what the
    guest says.
    """

    def __init__(self, home, image, device, options, heard, limit):
        self.limit, self.heard = limit, heard
        self.control, self.console = home / "control", home / "console"
        self.log, self.qemu, self.qmp = home / "device.log", None, None
        self.socket, self.spare = home / "socket", home / "spare"
        home.mkdir()
        self.serve(device)
        try:
            self.start(home, image, options)
        except BaseException:
            self.leave()
            raise

    def serve(self, options):
        """Starts a device process."""
        self.socket.unlink(missing_ok=True)
        with open(self.log, "a") as log:
            self.device = subprocess.Popen(
                [PARACUDA, "device", "--arbiter", "none", "--socket-path", self.socket,
                 "--control", self.control, *options], stdout=log, stderr=log, env=ENV)
        until(self.limit, "the device's socket", self.socket.exists)

    def start(self, home, image, options):
        boots = "-incoming" not in options
        memory = f"memory-backend-memfd,id=memory,size={MEMORY},share=on"
        with open(home / "qemu.log", "w") as log:
            self.qemu = subprocess.Popen(
                [CACHE / "qemu-11/qemu-system-x86_64", "-nodefaults", "-no-user-config",
                 "-display", "none", "-accel", "tcg", "-cpu", "max,-erms,-fsrm", "-m", MEMORY,
                 "-machine", "q35,sata=off,smbus=off,usb=off,memory-backend=memory",
                 "-object", memory, "-kernel", KERNEL / "vmlinux", "-initrd", image,
                 "-append", APPEND,
                 "-chardev", f"socket,id=serial,server=on,wait=off,path={home / 'line'},"
                 f"logfile={self.console}", "-serial", "chardev:serial",
                 "-qmp", f"unix:{home / 'qmp'},server=on,wait=off",
                 "-qmp", f"unix:{self.spare},server=on,wait=off",  # for commands of paracuda's
                 *device_options(self.socket), *options, *["-S"] * boots],
                stdout=log, stderr=log)
        self.qmp = QMP(home / "qmp", self.limit)
        self.line = connect(home / "line", self.limit)
        threading.Thread(target=self.listen, daemon=True).start()
        if boots:  # it boots when somebody listens
            self.qmp.ask("cont")

    def listen(self):
        """Writes down what the guest says, and when."""
        with self.line.makefile(errors="replace") as lines:
            for line in lines:
                self.heard.append((time.time(), line.strip()))

    def tell(self, words):
        self.line.sendall(words.encode() + b"\n")

    def stats(self):
        said = subprocess.run([PARACUDA, "stats", "--json", self.control], capture_output=True,
                              text=True, check=False, timeout=self.limit)
        return json.loads(said.stdout) if not said.returncode else {}

    def said(self):
        """What the device process has logged."""
        return self.log.read_text()

    def leave(self):
        """Ends QEMU, and waits for the device process, which ends by itself if a VM has used it."""
        if self.qemu:
            self.qemu.kill()
            self.qemu.wait()
        self.end_device()

    def end_device(self):
        """Waits for the device process's end, and ends it if need be."""
        for end, seconds in [(lambda: None, 2), (self.device.terminate, 30), (self.device.kill, 5)]:
            try:
                end()
                self.device.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue
