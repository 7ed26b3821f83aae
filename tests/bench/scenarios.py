# SPDX-License-Identifier: Apache-2.0
"""How VMs share a GPU: scenarios, each of which measures on the sides that mean something for it.

A scenario is a function of a host, on which tenants run, and of the results, which take figures.
"""

import statistics
import subprocess
import time

import common
from common import TOP
from tenants import (NATIVE, PYTHON, SHARED, UNSHARED, Tenant, has_torch, jain, share_error, used)

ALL = (NATIVE, UNSHARED, SHARED)


def equal(h, r):
    for side in h.sides(*ALL):
        tenants = [Tenant(200) for _ in range(2 if h.soft else 4)]
        if h.run("equal", side, tenants):
            r.put("equal", side, "used", used(tenants, h.seconds))
            r.put("equal", side, "Jain", jain([t.kernels for t in tenants]))
            if side == SHARED:
                r.put("equal", side, "turns a second", sum(t.turns for t in tenants) / h.seconds)


def sixteen(h, r):
    """One process in a VM against sixteen in another."""
    for side in h.sides(*ALL):
        tenants = [Tenant(200), Tenant(200, processes=3 if h.soft else 16)]
        if h.run("sixteen", side, tenants):
            r.put("sixteen", side, "Jain", jain([t.kernels for t in tenants]))
            if all(t.held for t in tenants):
                r.put("sixteen", side, "Jain, as charged", jain([t.held for t in tenants]))
                for what, t in zip(("one process", "sixteen"), tenants):
                    r.put("sixteen", side, f"{what}: kernels, of what was charged",
                          t.kernels * t.us / t.held)


def weights(h, r):
    if h.soft:
        tenants = [Tenant(1000, 20, weight=100), Tenant(1000, 20, weight=300)]
    else:
        tenants = [Tenant(200, 20, weight=100), Tenant(100, 2, weight=200, graph=20),
                   Tenant(5000, 4, weight=400), Tenant(1000, 8, weight=800)]
        tenants[3].torch = has_torch()
        if not tenants[3].torch:
            r.note("weights: no tenant with PyTorch, which isn't here (PYTHON): kernels of 1 ms "
                   "instead")
    if not h.run("weights", SHARED, tenants):
        return
    r.put("weights", SHARED, "error, as charged",
          share_error([t.held for t in tenants], [t.weight for t in tenants]))
    for t in tenants if all(t.held for t in tenants) else ():
        r.put("weights", SHARED, f"share of weight {t.weight}, as charged",
              t.held / sum(t.held for t in tenants))
    seen = [t for t in tenants if not t.torch]
    r.put("weights", SHARED, "error, by kernels",
          share_error([t.kernels * t.us for t in seen], [t.weight for t in seen]))


def limit(h, r):
    tenants = [Tenant(200, 20, time_limit=30)]
    if h.run("limit", SHARED, tenants):
        r.put("limit", SHARED, "used, %", 100 * used(tenants, h.seconds))


def latency(h, r):
    for us, depth in ((5000, 4), (1000, 8)):
        for side in h.sides(*ALL):
            light = Tenant(50, think=2000, **{"class": "latency"})
            if h.run("latency", side, [light, Tenant(us, depth)]):
                r.put("latency", side, f"p99 beside {us} us, us", light.p99)
                r.put("latency", side, f"p50 beside {us} us, us", light.p50)


def together(h, r):
    """Compute-bound tenants, all at once, to one that is alone."""
    for side in h.sides(*ALL):
        alone = [Tenant(1000, 20)]
        if not h.run("together", side, alone):
            continue
        tenants = [Tenant(1000, 20) for _ in range(2 if h.soft else 4)]
        if h.run("together", side, tenants):
            r.put("together", side, "one alone: used", used(alone, h.seconds))
            r.put("together", side, "all: used", used(tenants, h.seconds))
    one, all_ = r.get("together", "one alone: used", UNSHARED), r.get("together", "all: used")
    if one and all_:
        r.put("together", SHARED, "all, to one without an arbiter", all_ / one)


def alone(h, r):
    """One VM, with an arbiter and without, in turn."""
    told = ["--rates", "1", *(["--ns", "1"] if h.soft else [])]
    names = {"rate": "launches a second", "sync": "launch + synchronize, us"}
    for i in range(1 if h.soft else 3):
        for side in h.sides(NATIVE, *((UNSHARED, SHARED) if i % 2 else (SHARED, UNSHARED))):
            command = [str(h.program), *told]
            if side != NATIVE:
                command = h.guest(side, "alone", {}, command)
            code, out, _ = common.execute(command, 90)
            if code:
                r.note(f"alone, {side}: ended with {code}")
            for words in map(str.split, out.splitlines()):
                if len(words) == 3 and words[0] in names:
                    r.put("alone", side, names[words[0]], float(words[1]))


def idle(h, r):
    """A program's start in a VM that was used a moment ago, and what a VM holds some time later."""
    command = [str(h.start), "--samples", "5"]
    for side in h.sides(NATIVE, SHARED):
        guest = command if side == NATIVE else h.guest(SHARED, "starts", {}, command)
        code, out, _ = common.execute(guest, 90)
        for words in map(str.split, out.splitlines()):
            if len(words) == 3 and words[0] == "cuinit+context":
                r.put("idle", side, "cuInit + context, ms", float(words[1]))
        if code:
            r.note(f"idle, {side}: starts ended with {code}")
    if h.soft:
        r.note("idle: no device memory of an idle VM: this host has no GPU")
        return
    before = h.query("used")
    # far less than the usual time, after which it is the same; it has had a program and copies
    child = h.spawn(h.guest(SHARED, "idle", {"idle-time": "1s"}, [
        "/bin/sh", "-c", f"{h.start} --samples 1; sleep 10"]))
    h.wait_for(lambda: h.query("used") > before, 20)
    r.put("idle", SHARED, "device memory of its first program, MiB", h.query("used") - before)
    time.sleep(8)
    r.put("idle", SHARED, "device memory some time later, MiB", h.query("used") - before)
    h.collect(child, 30)


def scale(h, r):
    for count in (1, 2) if h.soft else (1, 8, 32):
        tenants = [Tenant(200) for _ in range(count)]
        if h.run("scale", SHARED, tenants):
            r.put("scale", SHARED, f"{count} VMs: used", used(tenants, h.seconds))
            r.put("scale", SHARED, f"{count} VMs: guest CPU of a kernel, us",
                  statistics.median(t.cpu for t in tenants))
            r.put("scale", SHARED, f"{count} VMs: p50 of a wait, a VM, us",
                  statistics.median(t.p50 for t in tenants) / count)


def attached(h, r):
    """Many VMs without programs, each with a driver that has its device."""
    count, atonce = h.vms or (3 if h.soft else 200), 8
    before = None if h.soft else h.query("used")
    children, begun = [], time.monotonic()
    try:
        for i in range(count):
            while len(h.top()) <= i - atonce and time.monotonic() - begun < 240:
                time.sleep(0.1)  # so many boot at a time
            children.append(h.spawn(h.guest(SHARED, f"idle{i}", {"idle-time": "1s"},
                                            ["sleep", "900"], "256M")))
        if not h.wait_for(lambda: len(h.top()) == count, 60):
            r.note(f"attached: only {len(h.top())} of {count} VMs are there")
        r.put("attached", SHARED, "VMs", len(h.top()))
        time.sleep(4)
        if before is not None:
            r.put("attached", SHARED, "device memory of all, MiB", h.query("used") - before)
        tenants = [Tenant(200)]
        if h.run("attached", SHARED, tenants):
            r.put("attached", SHARED, "one that works beside them: used",
                  used(tenants, h.seconds))
    finally:
        for child in children:
            child.terminate()
        for child in children:
            h.collect(child, 20)


def swap(h, r):
    """Two VMs that fit the GPU only one at a time, against two of half the size.

    All of a GPU's memory takes long to move, and much of the host's: another VM holds most of
    it. The times scale, since there is no move for ten times as long as the last one took. The
    first one takes longest, and the other VM then has as long a turn: the window is for three.
    """
    size = 45 if h.soft else 1024 * h.swap_memory  # MiB
    seconds = 20 if h.soft else 100 if h.quick else 160
    policy = {"soft_memory": "80M"} if h.soft else {}

    def pair(memory, **more):
        return [Tenant(1000, 20, memory=memory, **policy, **more) for _ in range(2)]

    held = ballast(h, r, size) if not h.soft else None
    if not h.soft and held is None:
        return
    try:
        for side in h.sides(NATIVE, SHARED):
            tenants = pair(size // 2)
            if h.run("swap", side, tenants, seconds // 2, lead=5):
                r.put("swap", side, "both resident: used", used(tenants, seconds // 2))
        tenants = pair(size, memory_mode="swap")
        if not h.run("swap", SHARED, tenants, seconds, lead=10 if h.soft else 40):
            return
        r.put("swap", SHARED, "times moved out", sum(t.swaps for t in tenants))
        r.put("swap", SHARED, "moving, part of the time",
              sum(t.moving for t in tenants) / seconds)
        if failed := sum(t.unmoved for t in tenants):
            r.note(f"swap: {failed} moves failed: see share.log")
        if not all(t.swaps for t in tenants):
            r.note("swap: no figure: not both VMs moved in the window")
            return
        r.put("swap", SHARED, "in turns: used", used(tenants, seconds))
        r.put("swap", SHARED, "Jain", jain([t.kernels for t in tenants]))
        resident = r.get("swap", "both resident: used")
        if resident:
            r.put("swap", SHARED, "in turns to resident", used(tenants, seconds) / resident)
    finally:
        if held:
            h.end(held)


def ballast(h, r, size):
    """Has a VM hold what leaves room for one of the size in MiB, and contexts, but not two."""
    holds = int(h.query("free") - 1.5 * size)
    if holds < 0:
        r.note(f"swap: no room: {size} MiB are too much for this GPU: give --swap-memory")
        return None
    child = h.spawn(h.guest(SHARED, "ballast", {}, [
        h.program, "--iterations", "1", "--think", "500000", "--seconds", "3600000",
        "--at", f"{time.time():.0f}", "--memory", str(holds)]))

    def there():
        figures = h.top().get("ballast", {}).get("figures") or {}
        return sum(figures.get("memory", {}).values()) >= holds << 20

    if h.wait_for(lambda: there() or child.poll() is not None, 60) and child.poll() is None:
        r.note(f"swap: two VMs of {size} MiB, and one that holds {holds} and stays")
        return child
    h.end(child)
    r.note(f"swap: no VM that holds {holds} MiB: see share.log")
    return None


def resnet(h, r):
    """Inference at random times, at 40 % of what it can do, beside training."""
    if h.soft:
        r.note("resnet: the software GPU is too slow for it")
        return
    if not has_torch():
        r.note(f"resnet: {PYTHON} has no PyTorch: set PYTHON to one that has")
        return
    for side in (NATIVE, SHARED):
        found = torch(h, r, side, ("find",))
        steps = found and torch(h, r, side, ("train",))
        rate = found and 0.4 * found["rate"]
        calm = steps and torch(h, r, side, ("infer", rate))
        both = calm and torch(h, r, side, ("infer", rate), ("train",))
        if not both:
            continue
        r.put("resnet", side, "inferences a second at most", found["rate"])
        r.put("resnet", side, "p99 alone, us", calm["wait.p99"])
        r.put("resnet", side, "p99 beside training, us", both["wait.p99"])
        r.put("resnet", side, "p99 to alone", both["wait.p99"] / calm["wait.p99"])
        r.put("resnet", side, "steps a second alone", steps["steps"])
        r.put("resnet", side, "training to the time left", both["steps"] / steps["steps"] / 0.6)


def torch(h, r, side, *tenants):
    """Runs ResNet-50 in these ways at once. Returns all that they measured, or None."""
    seconds = max(10, h.seconds)
    at = time.time() + (15 if side == NATIVE else 25)  # to import PyTorch
    children = []
    for what, *rate in tenants:
        command = [PYTHON, str(TOP / "tests/bench/resnet.py"), what, f"{at:.3f}", str(seconds),
                   *map(str, rate)]
        if side != NATIVE:
            # With equal weights several answers in a row are more than its share, and wait.
            policy = {"class": "latency", "weight": 400} if what == "infer" else {}
            command = h.guest(side, what, policy, command)
        children.append(h.spawn(command))
    values, good = {}, True
    for (what, *_), child in zip(tenants, children):
        out = h.collect(child, at - time.time() + seconds + 30)
        print(f"== resnet {side} {what}: {child.returncode}\n{out}", file=h.log, flush=True)
        if child.returncode:
            r.note(f"resnet, {side}: {what} ended with {child.returncode}")
            good = False
        values.update({w[0]: float(w[1]) for w in map(str.split, out.splitlines())
                       if len(w) == 3})
    return values if good else None


# In the order in which they run, with about how many seconds they take on a GPU, without windows,
# and how many windows they have.
SCENARIOS = {
    equal: (30, 3), sixteen: (50, 3), weights: (35, 1), limit: (10, 1), latency: (50, 6),
    together: (50, 6), alone: (60, 0), idle: (40, 0), resnet: (250, 0), scale: (60, 3),
    swap: (230, 0), attached: (110, 1),
}
