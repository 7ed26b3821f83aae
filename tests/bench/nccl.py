# SPDX-License-Identifier: Apache-2.0
"""torch.distributed with nccl, a process for each GPU, two at least: the bus bandwidth of
all_reduce, a step of DDP, of FSDP, of tensor parallel and of a pipeline, and the way that NCCL
takes. Prints lines of name, value and unit. In the guest kernel 7.2-threads, for each figure also
how long a call waited until its threads could run in user mode: the main thread, and all together.

NCCL_NVLS_ENABLE is 0: no multicast object is made."""

import contextlib
import glob
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "frameworks"))
from gpucount import gpu_count

SIZES = {"1MiB": 1 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30}


def median(values):
    return sorted(values)[len(values) // 2]


def waited():
    """Seconds that each thread has waited until it could run in user mode, if the kernel says."""
    waits = {}
    for status in glob.glob("/proc/self/task/*/status"):
        with contextlib.suppress(OSError), open(status, encoding="utf-8") as f:
            found = re.search(r"^turnstile_ns:\s*(\d+)", f.read(), re.M)
            if found:
                waits[int(status.split("/")[4])] = int(found[1]) / 1e9
    return waits


def timed(torch, runs, step):
    """Seconds of a run, after some that warm up, and seconds that it waited as waited says: the
    main thread, and all threads. None where the kernel doesn't say."""
    times = []
    for i in range(runs + 5):
        if i == 5:
            before = waited()
        torch.cuda.synchronize()
        begin = time.monotonic()
        step()
        torch.cuda.synchronize()
        if i >= 5:
            times.append(time.monotonic() - begin)
    waits = {thread: (s - before.get(thread, 0)) / runs for thread, s in waited().items()}
    return median(times), (waits[os.getpid()], sum(waits.values())) if waits else None


def linear(torch, count=8):
    return torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(count)))


def step_of(torch, model, data):
    """A step of training."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def ddp(torch, number, world, device):
    model = torch.nn.parallel.DistributedDataParallel(linear(torch).to(device),
                                                      device_ids=[number])
    return step_of(torch, model, torch.randn(256, 2048, device=device))


def fsdp(torch, number, world, device):
    from torch.distributed.fsdp import fully_shard

    model = linear(torch).to(device)
    for layer in model:
        fully_shard(layer)
    return step_of(torch, fully_shard(model), torch.randn(256, 2048, device=device))


def tensor_parallel(torch, number, world, device):
    """Two layers at a time are divided: the first by columns, the second by rows."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)

    wide = 8192 // world * world
    model = torch.nn.Sequential(*(torch.nn.Linear(*size) for _ in range(4)
                                  for size in ((2048, wide), (wide, 2048)))).to(device)
    plan = {str(i): RowwiseParallel() if i % 2 else ColwiseParallel() for i in range(8)}
    model = parallelize_module(model, init_device_mesh("cuda", (world,)), plan)
    return step_of(torch, model, torch.randn(1024, 2048, device=device))


def pipeline(torch, number, world, device):
    """Four parts of a batch go through some of the layers on each GPU, and back."""
    import torch.distributed as dist

    layers = list(linear(torch, max(8, world)))
    begin, end = (len(layers) * i // world for i in (number, number + 1))
    stage = torch.nn.Sequential(*layers[begin:end]).to(device)
    optimizer = torch.optim.SGD(stage.parameters(), lr=1e-3)
    parts = torch.randn(4, 256, 2048, device=device)

    def first():
        outputs = [stage(part) for part in parts]
        for y in outputs:
            dist.send(y.detach(), 1)
        for y in outputs:
            gradient = torch.empty_like(y)
            dist.recv(gradient, 1)
            y.backward(gradient)

    def between():
        passed = []
        for part in parts:
            x = torch.empty_like(part, requires_grad=False)
            dist.recv(x, number - 1)
            y = stage(x.requires_grad_())
            dist.send(y.detach(), number + 1)
            passed.append((x, y))
        for x, y in passed:
            gradient = torch.empty_like(y)
            dist.recv(gradient, number + 1)
            y.backward(gradient)
            dist.send(x.grad, number - 1)

    def last():
        entered = [torch.empty_like(part, requires_grad=False) for part in parts]
        for x in entered:
            dist.recv(x, number - 1)
            stage(x.requires_grad_()).square().mean().backward()
        for x in entered:
            dist.send(x.grad, number - 1)

    run = {0: first, world - 1: last}.get(number, between)

    def step():
        optimizer.zero_grad()
        run()
        optimizer.step()

    return step


MODELS = {"ddp": ddp, "fsdp": fsdp, "tensor-parallel": tensor_parallel, "pipeline": pipeline}


def rank(number, world, port):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(number)
    device = torch.device("cuda", number)
    store = dist.TCPStore("127.0.0.1", port, world, number == 0)
    dist.init_process_group("nccl", store=store, rank=number, world_size=world, device_id=device)

    def say(name, value, unit):
        if number == 0:
            print(name, f"{value:.4g}", unit, flush=True)

    def waits(name, seconds):
        if seconds:
            say(f"{name}.waits", seconds[0] * 1e6, "us")
            say(f"{name}.waits-all", seconds[1] * 1e6, "us")

    x = torch.full((1024,), float(number + 1), device=device)
    dist.all_reduce(x)
    say("all_reduce.right", int(bool((x == world * (world + 1) / 2).all())), "")
    for name, size in SIZES.items():
        x = torch.zeros(size // 4, device=device)
        t, w = timed(torch, 30, lambda: dist.all_reduce(x))
        say(f"all_reduce.{name}", size / t / 1e9 * 2 * (world - 1) / world, "GB/s")  # the bus's
        say(f"all_reduce.{name}.time", t * 1e6, "us")
        waits(f"all_reduce.{name}", w)
    peer = torch.zeros(64 << 20, device=device)
    send = {0: lambda: dist.send(peer, 1), 1: lambda: dist.recv(peer, 0)}.get(number, lambda: None)
    t, w = timed(torch, 20, send)
    say("send.256MiB", (256 << 20) / t / 1e9, "GB/s")
    waits("send.256MiB", w)
    for name, make in MODELS.items():
        torch.manual_seed(1)
        t, w = timed(torch, 30, make(torch, number, world, device))
        say(f"{name}.step", t * 1e3, "ms")
        waits(f"{name}.step", w)
    dist.destroy_process_group()


def main():
    world = gpu_count()
    if world < 2:
        sys.exit("nccl: there are not two GPUs")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, NCCL_NVLS_ENABLE="0", NCCL_DEBUG="INFO", NCCL_SOCKET_IFNAME="lo",
                   NCCL_DEBUG_FILE=f"{folder}/%p")
        ranks = [subprocess.Popen([sys.executable, __file__, str(i), str(world), str(port)],
                                  env=env) for i in range(world)]
        codes = []
        try:
            codes = [r.wait(timeout=140) for r in ranks]
        except subprocess.TimeoutExpired:
            print("nccl: time limit", file=sys.stderr)
        for r in ranks:
            r.kill()
        log = "".join(open(f, errors="replace").read() for f in glob.glob(f"{folder}/*"))
        ways = sorted(set(re.findall(r"via (\S+)", log)))
        print("way", ",".join(ways) or "-", "", flush=True)
        if codes != [0] * world:
            print("\n".join(log.splitlines()[-40:]), file=sys.stderr)
            sys.exit(1)


if len(sys.argv) == 4:
    rank(*(int(word) for word in sys.argv[1:]))
else:
    main()
