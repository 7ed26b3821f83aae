# SPDX-License-Identifier: Apache-2.0
"""Programs that share a GPU: natively, in guests without an arbiter, and in guests under one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import common
from common import PARACUDA, TOP

PYTHON = shutil.which(os.environ.get("PYTHON", "")) or sys.executable  # that has PyTorch
NATIVE, UNSHARED, SHARED = SIDES = "native", "unshared", "shared"
TORCH = """import sys, time, torch
at, end = float(sys.argv[1]), float(sys.argv[1]) + float(sys.argv[2]) + 0.5
a = torch.randn(4096, 4096, device="cuda")
while time.time() < end:
    for _ in range(4): a = (a @ a).clamp_(-1, 1)
    torch.cuda.synchronize()
"""


def has_torch():
    """Whether PYTHON has PyTorch. It isn't imported, which takes long."""
    find = "import importlib.util as u; exit(not u.find_spec('torch'))"
    return subprocess.run([PYTHON, "-c", find], stderr=subprocess.DEVNULL).returncode == 0


class Tenant:
    """A VM, or natively some processes, with kernels of so many microseconds."""

    def __init__(self, us, depth=1, weight=100, processes=1, think=0, graph=0, memory=0,
                 **policy):
        self.us, self.weight, self.torch = us, weight, False
        self.told = {"depth": depth, "processes": processes, "think": think, "graph": graph,
                     "memory": memory}
        self.policy = {"weight": weight, **{k.replace("_", "-"): v for k, v in policy.items()}}
        # What a run measured: kernels, waits of all processes, and the GPU's time by the arbiter.
        self.kernels, self.p50, self.p99, self.held = 0, 0, 0, None
        self.cpu = None  # us of the guest's processors for each kernel
        self.turns = 0
        self.swaps, self.moving = 0, 0  # times that its memory moved out; seconds that it took
        self.unmoved = 0  # times that it couldn't, since it began

    def command(self, host, at, seconds):
        """The program, whose window of so many seconds begins at a time of the system's clock."""
        if self.torch:
            return [PYTHON, "-c", TORCH, f"{at:.3f}", str(seconds)]
        told = [word for key, value in self.told.items() if value
                for word in (f"--{key}", str(value))]
        return [str(host.program), *host.length(self.us), *told, "--at", f"{at:.3f}",
                "--seconds", str(1000 * seconds)]

    def measured(self, out):
        """Takes what the program printed. Returns what is wrong with it, if anything is."""
        lines = [line.split() for line in out.splitlines()]
        found = {name: [float(w[1]) for w in lines if len(w) == 3 and w[0] == name]
                 for name in ("kernels", "wait.p50", "wait.p99", "cpu")}
        self.kernels = sum(found["kernels"])
        self.p50, self.p99, self.cpu = (max(found[n], default=None)
                                        for n in ("wait.p50", "wait.p99", "cpu"))
        late = [line for line in out.splitlines() if line.startswith("# late")]
        return " ".join(late) or (None if self.torch or found["kernels"] else "no figures")

    def charged(self, begin, end):
        """Takes what the arbiter told of it when the window began and ended."""
        self.held = None
        if begin and end:
            self.held = (end["held_ns"] - begin["held_ns"]) / 1e3
            self.turns = end["turns"] - begin["turns"]
            self.swaps = end.get("swaps", 0) - begin.get("swaps", 0)
            self.unmoved = end.get("swap_failures", 0)
            self.moving = (end.get("swap_ns", 0) - begin.get("swap_ns", 0)) / 1e9


def used(tenants, seconds):
    """The part of a window for which their kernels had the GPU."""
    return sum(t.kernels * t.us for t in tenants) / (1e6 * seconds)


def jain(values):
    total = sum(values)
    return total * total / (len(values) * sum(v * v for v in values)) if total else None


def share_error(values, weights):
    """The largest difference of a part of the sum and what it is to be, in percent of the sum."""
    if not all(v is not None for v in values) or not sum(values):
        return None
    return 100 * max(abs(v / sum(values) - w / sum(weights)) for v, w in zip(values, weights))


class Host:
    """Where tenants run: a host with a GPU, real or not, and an arbiter's socket."""

    def __init__(self, gpu, settings, seconds, log, note):
        self.gpu, self.soft, self.set = gpu, gpu == "soft", settings
        self.seconds, self.log, self.note = seconds, log, note
        self.socket = None  # of the arbiter
        self.program, self.start = TOP / "build/bench/share", TOP / "build/bench/start"
        self.iterations, self.children = None, []
        if (TOP / "cache").is_dir():
            os.environ.update(PARACUDA_CACHE=str(TOP / "cache"), PARACUDA_BUILD=str(TOP / "build"))

    def build(self):
        """Makes the programs, and finds how long their kernels take on a GPU of one's own."""
        for program in (self.program, self.start):
            common.build(program, self.soft, self.log)
        if not self.soft:
            self.iterations = common.calibrate(self.program)
            self.note(f"calibrated: {self.iterations:.1f} iterations take a microsecond")

    def length(self, us):
        if self.soft:
            return ["--ns", str(1000 * us)]
        return ["--iterations", str(int(us * self.iterations))]

    def sides(self, *wanted):
        if self.soft and NATIVE in wanted:
            self.note("no native runs: this host has no GPU")
        return [s for s in wanted if not (self.soft and s == NATIVE)]

    def guest(self, side, name, policy, program, memory=None):
        """The command that has a program run in a VM."""
        mode = ["--arbiter", "none"]
        if side == SHARED:
            mode = ["--arbiter", self.socket, "--name", name]
            for pair in (*self.set, *(f"{key}={value}" for key, value in policy.items())):
                mode += ["--set", pair]
        memory = memory or ("1G" if self.soft else "4G")
        return [str(PARACUDA), "run", "--vm", "uml", "--gpu", self.gpu, "--mem", memory, *mode,
                "--set", "channels=20", "--", *map(str, program)]

    def spawn(self, command):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        self.children = [c for c in self.children if c.poll() is None] + [child]
        return child

    def collect(self, child, limit):
        """What a child printed, which has so many seconds for it."""
        try:
            return child.communicate(timeout=limit)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
            return ""

    def end(self, child):
        child.terminate()
        self.collect(child, 20)

    def end_all(self):
        """Ends what a scenario that was stopped has left."""
        for child in self.children:
            if child.poll() is None:
                self.end(child)

    def top(self):
        """What the arbiter tells of each VM, by their names."""
        text = subprocess.run([str(PARACUDA), "top", "--arbiter", self.socket, "--json"],
                              stdout=subprocess.PIPE).stdout
        return {v["name"]: v for v in json.loads(text)["vms"]} if text else {}

    def wait_for(self, is_, limit):
        end = time.monotonic() + limit
        while not is_() and time.monotonic() < end:
            time.sleep(0.2)
        return is_()

    def query(self, what):
        """What nvidia-smi says of the GPU's memory, in MiB: of the first that CUDA may see."""
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        query = ["nvidia-smi", "-i", first, f"--query-gpu=memory.{what}",
                 "--format=csv,noheader,nounits"]
        out = subprocess.run(query, stdout=subprocess.PIPE, check=True).stdout.decode()
        return float(out.splitlines()[0])

    def run(self, scenario, side, tenants, seconds=None, lead=0):
        """Runs tenants beside one another, and says whether all were there in time.

        The window is of so many seconds. They get lead more than usual until it begins.
        """
        seconds = seconds or self.seconds
        count = sum(t.told["processes"] for t in tenants)
        each = 0.5 if side == NATIVE else 0.8 if self.soft else 0.6
        torch = any(t.torch for t in tenants)  # takes long to import
        at = time.time() + (3 if side == NATIVE else 6) + each * count + (20 if torch else lead)
        children = []
        for i, t in enumerate(tenants):
            command = t.command(self, at, seconds)
            if side != NATIVE:
                command = self.guest(side, f"vm{i}", t.policy, command)
            children.append(self.spawn(command))
        told = []
        for moment in (at, at + seconds):
            time.sleep(max(0, moment - time.time()))
            told.append(self.top() if side == SHARED else {})
        good = True
        for i, (t, child) in enumerate(zip(tenants, children)):
            name, out = f"vm{i}", self.collect(child, 60)
            print(f"== {scenario} {side} {name}: {child.returncode}\n{out}", file=self.log,
                  flush=True)
            wrong = t.measured(out)
            t.charged(told[0].get(name), told[1].get(name))
            if child.returncode or wrong:
                self.note(f"{scenario}, {side}: {name} ended with {child.returncode}, "
                          f"{wrong or 'see share.log'}")
                good = False
        return good
