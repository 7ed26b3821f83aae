# SPDX-License-Identifier: Apache-2.0
"""torch.profiler: which kernels, copies and fills it shows, for which operators, and that each
took time."""

import collections
import os
import sys

if os.path.exists("/dev/paracuda") and "LD_PRELOAD" not in os.environ:
    # In a guest the profiler needs this library before it starts.
    environment = dict(os.environ, LD_PRELOAD="libparacuda-cupti.so")
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)

from sections import imported, run, section

import torch
from torch.profiler import ProfilerActivity, profile

imported("import torch")


def profiled(work):
    """The profile of work, done once before, so that libraries have set themselves up."""
    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        work()
        torch.cuda.synchronize()
    return p


def on_device(p):
    return [e for e in p.events() if "CUDA" in str(e.device_type)]


def shown(p):
    """What ran on the GPU, by name, how often, and whether all of it took time."""
    events = on_device(p)
    counts = collections.Counter(e.name[:80] for e in events)
    return [f"{name}: {n}" for name, n in sorted(counts.items())] + \
           [all(e.time_range.elapsed_us() > 0 for e in events)]


X = torch.randn(1024, 1024, device="cuda")


@section("kernels")
def kernels():
    return shown(profiled(lambda: ((X @ X).relu() + 1).sum()))


@section("copies and fills")
def copies():
    def work():
        host = X.cpu()
        torch.zeros(1 << 20, device="cuda")
        host.pin_memory().cuda(non_blocking=True)
        torch.cuda.synchronize()

    return shown(profiled(work))


@section("backward")
def backward():
    torch.manual_seed(1)
    layers = torch.nn.Linear(1024, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)
    model = torch.nn.Sequential(*layers).cuda()
    return shown(profiled(lambda: model(X).square().mean().backward()))


@section("kernels of each operator")
def operators():
    p = profiled(lambda: (X @ X).relu().sum())
    owners = [e for e in p.events() if e.name.startswith("aten::") and e.kernels]
    return sorted(f"{e.name}: {len(e.kernels)}" for e in owners)


@section("in the order in which they ran")
def order():
    p = profiled(lambda: [(X @ X).relu() for _ in range(5)])
    events = sorted(on_device(p), key=lambda e: e.time_range.start)
    return [e.name[:40] for e in events]


if __name__ == "__main__":
    run(torch.cuda.synchronize)
