# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks' figures are compared with: each goal as (text, value, limit, whether it is
reached)."""

MB = 1 << 20


class Runs:
    """The medians of one session: self[side][name], sides being native, guest and variants."""

    def __init__(self, sides):
        self.sides = sides

    def get(self, side, name):
        return self.sides.get(side, {}).get(name)

    def ratio(self, name, over="guest", under="native"):
        a, b = self.get(over, name), self.get(under, name)
        return a / b if a and b else None


def at_least(text, value, limit, unit="x"):
    return text, value, f">= {limit} {unit}", None if value is None else value >= limit


def at_most(text, value, limit, unit="x"):
    return text, value, f"<= {limit} {unit}", None if value is None else value <= limit


def copy(r):
    names = {64 * MB: "64 MiB", 128 * MB: "128 MiB", 1024 * MB: "1 GiB"}
    for way, limit in (("h2d", 4), ("d2h", 3)):
        for size, name in names.items():
            yield at_least(f"pageable {way} {name} to native", r.ratio(f"pageable.{way}.{size}"),
                           limit)
    for way in ("h2d", "d2h"):
        for size, name in ((16 * MB, "16 MiB"), *names.items()):
            yield at_least(f"pinned {way} {name} to native", r.ratio(f"pinned.{way}.{size}"), 0.99)
    for way in ("h2d", "d2h"):
        name = f"latency.{way}.4096"
        guest, native, call = r.get("guest", name), r.get("native", name), r.get("guest", "syscall")
        added = guest - native - call if guest and native and call else None
        yield at_most(f"4 KiB {way}: added beyond a system call", added, 10, "us")
    for way in ("h2d", "d2h"):
        for size, name in names.items():
            gain = r.ratio(f"pageable.{way}.{size}", under="address-mapping=off")
            yield at_least(f"pageable {way} {name}, mapping on to off", gain, 6.5)
    yield at_most("cuMemHostAlloc 64 MiB to native", r.ratio("hostalloc.64M"), 1.5)


def launch(r):
    for n in (1, 8, 64):
        yield at_most(f"guest CPU per launch, {n} arguments", r.get("guest", f"submit.{n}.burst"),
                      0.25, "us")
    for name in ("stream", "streams4", "threads4"):
        yield at_least(f"empty kernels, {name}, to native", r.ratio(f"rate.{name}"), 1.0)
    for name in ("stream", "chain200"):
        yield at_least(f"repeated pattern, {name}, to native", r.ratio(f"rate.{name}"), 2.3)
    yield at_most("launch + synchronize, spinning, to native", r.ratio("sync.spin"), 1.05)
    native, call = r.get("native", "sync.blocking"), r.get("guest", "syscall")
    if native and call:
        yield at_most("launch + synchronize, blocking: 1.5x native and a system call",
                      r.get("guest", "sync.blocking"), round(1.5 * native + call, 1), "us")
    yield at_most("crossings per 1,000 launches", r.get("guest", "crossings"), 10, "")
    yield at_least("crossings per 1,000 launches, undelayed",
                   r.get("batch-commands=1,spin-host=0", "crossings"), 1000, "")


def start(r):
    side = "warm-workers=1" if "warm-workers=1" in r.sides else "guest"
    yield at_most(f"cuInit + context, {side}", r.get(side, "cuinit+context"), 100, "ms")
    yield at_most("cuInit + context, warm-workers=1 to none",
                  r.ratio("cuinit+context", "warm-workers=1", "warm-workers=0"), 0.5)
    yield at_most("program, 64 GiB guest to 1 GiB guest", r.ratio("program", "mem=64G", "mem=1G"),
                  1.05)


def memory(r):
    yield at_most("host memory beyond the guest's RAM and CUDA's own", r.get("guest", "beyond"),
                  64, "MiB a program")


def share(r):
    """Of r.get(scenario, figure) under an arbiter, or on another side."""
    def ratio(scenario, name, under="unshared"):
        a, b = r.get(scenario, name), r.get(scenario, name, under)
        return a / b if a and b else None

    yield at_least("4 VMs, 200 us kernels waited for: GPU used", r.get("equal", "used"), 0.92, "")
    yield at_least("the same: Jain", r.get("equal", "Jain"), 0.99, "")
    yield at_least("1 against 16 processes: Jain, as charged",
                   r.get("sixteen", "Jain, as charged"), 0.99, "")
    for how in ("as charged", "by kernels"):
        yield at_most(f"weights: largest error, {how}", r.get("weights", f"error, {how}"), 2, "%")
    used = r.get("limit", "used, %")
    yield at_most("time-limit 30 beside an idle GPU: error", used and abs(used - 30), 1, "%")
    for us, limit in ((5000, 5300), (1000, 1300)):
        yield at_most(f"latency class, 50 us beside {us} us: p99",
                      r.get("latency", f"p99 beside {us} us, us"), limit, "us")
    yield at_most("ResNet-50 inference beside training: p99 to alone",
                  r.get("resnet", "p99 to alone"), 1.2)
    yield at_least("training beside it, to the time left",
                   r.get("resnet", "training to the time left"), 0.9)
    yield at_least("all tenants to one alone", r.get("together", "all, to one without an arbiter"),
                   0.96)
    yield at_least("a VM alone: launches a second, with an arbiter",
                   ratio("alone", "launches a second"), 0.98)
    yield at_most("a VM alone: launch + synchronize, with an arbiter",
                  ratio("alone", "launch + synchronize, us"), 1.02)
    yield at_least("two VMs that each use all memory, to both resident",
                   r.get("swap", "in turns to resident"), 0.85)
    yield at_most("device memory of an idle VM",
                  r.get("idle", "device memory some time later, MiB"), 0, "MiB")
    yield at_most("cuInit + context", r.get("idle", "cuInit + context, ms"), 15, "ms")
    yield at_least("VMs attached to one GPU", r.get("attached", "VMs"), 200, "")
    yield at_most("their device memory", r.get("attached", "device memory of all, MiB"), 0, "MiB")
    few, many = (r.get("scale", f"{n} VMs: p50 of a wait, a VM, us") for n in (8, 32))
    yield at_most("32 VMs: p50 of a wait, for each VM, to 8 VMs", few and many and many / few, 1.1)
    few, many = (r.get("scale", f"{n} VMs: guest CPU of a kernel, us") for n in (1, 32))
    yield at_most("32 VMs: guest CPU of a kernel to one VM alone", few and many and many / few,
                  1.1)


GOALS = {"copy": copy, "launch": launch, "start": start, "memory": memory}
