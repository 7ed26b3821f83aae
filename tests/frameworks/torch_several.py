# SPDX-License-Identifier: Apache-2.0
"""Usage: torch_several.py [shm|sockets]
       torch_several.py remote RANK ADDRESS PORT

torch.distributed with nccl, a process for each GPU, two at least: collectives, send and recv, DDP,
FSDP, tensor parallel, a pipeline, a tensor that the other processes open, and the way that NCCL
takes. Of the processes the first reports. With shm NCCL goes through /dev/shm, since P2P is off;
with sockets it goes through TCP, as between machines. No multicast object is made.

With remote it is one of two processes on two machines, or in two VMs, each with one GPU. RANK is 0
or 1; both are given an address of the first one, and a free port there.
"""

import glob
import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
from datetime import timedelta
from multiprocessing.reduction import ForkingPickler

from gpucount import gpu_count
from sections import imported, report, run, section

WAYS = {
    "": {},
    "shm": {"NCCL_P2P_DISABLE": "1"},
    "sockets": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"},
}
LIMIT = 100  # seconds


def lead():
    """Starts the processes, and reports how they ended and which way NCCL took."""
    world = gpu_count()
    if world < 2:
        sys.exit("torch_several: there are not two GPUs")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, NCCL_NVLS_ENABLE="0", NCCL_DEBUG="INFO", NCCL_SOCKET_IFNAME="lo",
                   NCCL_DEBUG_FILE=f"{folder}/%p", TORCH_SYMM_MEM_DISABLE_MULTICAST="1",
                   **WAYS[" ".join(sys.argv[1:])])
        ranks = [subprocess.Popen([sys.executable, __file__],
                                  env=env | {"SEVERAL": f"{i} {world} {port}"})
                 for i in range(world)]
        codes = []
        for r in ranks:
            try:
                codes.append(r.wait(timeout=LIMIT))
            except subprocess.TimeoutExpired:
                codes.append("time limit")
                r.kill()
        log = "".join(open(f, errors="replace").read() for f in glob.glob(f"{folder}/*"))
        ways = sorted(set(re.findall(r"via (\S+)", log)))
        report("the way", ways, error=None if ways else "NCCL's log doesn't say")
        good = codes == [0] * world
        report(f"{'both' if world == 2 else 'all'} end well", codes,
               error=None if good else f"{codes}")
        if not good:
            print("\n".join(log.splitlines()[-40:]), file=sys.stderr)
            sys.exit(1)


if len(sys.argv) == 5 and sys.argv[1] == "remote" and sys.argv[2] in ("0", "1"):
    os.environ |= WAYS["sockets"] | {"NCCL_NVLS_ENABLE": "0"}
    os.environ["SEVERAL"] = f"{sys.argv[2]} 2 {sys.argv[4]} {sys.argv[3]}"
elif "SEVERAL" not in os.environ:
    if __name__ != "__main__" or " ".join(sys.argv[1:]) not in WAYS:
        sys.exit(__doc__)
    lead()
    sys.exit()

import torch
import torch.distributed as dist
from torch import nn

RANK, WORLD, PORT, *HOST = os.environ["SEVERAL"].split()
RANK, WORLD, REMOTE = int(RANK), int(WORLD), bool(HOST)
LAST, BEFORE, AFTER = WORLD - 1, (RANK - 1) % WORLD, (RANK + 1) % WORLD
DEVICE = torch.device("cuda", 0 if REMOTE else RANK)
if RANK:
    sys.stdout = open(os.devnull, "w")
imported("import torch")
torch.cuda.set_device(DEVICE)
STORE = dist.TCPStore(HOST[0] if REMOTE else "127.0.0.1", int(PORT), WORLD, RANK == 0)


@section("init_process_group")
def init():
    dist.init_process_group("nccl", store=STORE, rank=RANK, world_size=WORLD, device_id=DEVICE,
                            timeout=timedelta(seconds=60))
    peers = [] if REMOTE else [torch.cuda.can_device_access_peer(i, j) for i in range(WORLD)
                               for j in range(WORLD) if i != j]
    return [dist.get_backend(), dist.get_world_size(), *peers]


@section("all_reduce, broadcast, reduce", repeat=2)
def reduce():
    x = torch.arange(1 << 20, dtype=torch.float32, device=DEVICE) * (RANK + 1)
    dist.all_reduce(x)
    first = torch.full((1000,), RANK + 5.0, device=DEVICE)
    dist.broadcast(first, 1)
    half = torch.full((4096,), RANK + 1, dtype=torch.bfloat16, device=DEVICE)
    dist.reduce(half, 0, op=dist.ReduceOp.SUM)
    return [x[1].item(), x[-1].item(), first.sum().item(), half.float().sum().item()]


@section("all_gather, reduce_scatter, all_to_all", repeat=2)
def gather():
    x = torch.arange((1 << 16) // WORLD * WORLD, dtype=torch.int64, device=DEVICE) + RANK
    parts, exchanged = [torch.zeros_like(x) for _ in range(WORLD)], torch.empty_like(x)
    scattered = x.new_empty(x.numel() // WORLD)
    dist.all_gather(parts, x)
    dist.reduce_scatter_tensor(scattered, x)
    dist.all_to_all_single(exchanged, x)
    return [t.sum().item() for t in (*parts, scattered, exchanged)]


@section("send and recv, one after the other and together", repeat=2)
def send():
    x = torch.full((1 << 20,), float(RANK + 1), device=DEVICE)
    got = torch.zeros_like(x)
    if RANK == 0:
        dist.send(x, AFTER)
        dist.recv(got, BEFORE)
    else:
        dist.recv(got, BEFORE)
        right = got == (1 if RANK == 1 else 10 * RANK)  # what isn't, the next one gets as 0
        dist.send(x * 10 * right, AFTER)
    both = torch.zeros_like(x)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, AFTER),
                                        dist.P2POp(dist.irecv, both, BEFORE)]):
        work.wait()
    return [got.mean().item(), both.mean().item()]


@section("all_reduce in a CUDA graph")
def captured():
    x = torch.ones(4096, device=DEVICE)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        dist.all_reduce(y)
    x.fill_(RANK + 1)
    graph.replay()
    return y.sum().item()


def layers(width=512, count=4):
    torch.manual_seed(5)
    return nn.Sequential(*(m for _ in range(count) for m in (nn.Linear(width, width), nn.Tanh())))


def batch(width=512, rows=64):
    """A part of one batch for each process."""
    torch.manual_seed(7 + RANK)
    return torch.randn(rows, width).to(DEVICE)


def train(model, x, steps=4):
    """Losses, the mean of all processes'."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


@section("DDP", tolerance=1e-3)
def ddp():
    model = nn.parallel.DistributedDataParallel(layers().to(DEVICE), device_ids=[DEVICE])
    return train(model, batch())


@section("FSDP: fully_shard", tolerance=1e-3)
def sharded():
    from torch.distributed.fsdp import fully_shard

    model = layers().to(DEVICE)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    return train(model, batch())


@section("FSDP: FullyShardedDataParallel", tolerance=1e-3)
def fsdp():
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(layers().to(DEVICE), device_id=DEVICE, use_orig_params=True)
    return train(model, batch())


@section("tensor parallel", tolerance=1e-3)
def tensors():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)

    mesh = init_device_mesh("cuda", (WORLD,))
    torch.manual_seed(9)
    width = 2048 // WORLD * WORLD
    model = nn.Sequential(nn.Linear(512, width), nn.GELU(), nn.Linear(width, 512)).to(DEVICE)
    x = torch.randn(64, 512).to(DEVICE)  # the same for all: the weights are divided
    with torch.no_grad():
        whole = model(x).square().sum().item()
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    with torch.no_grad():
        parted = model(x).square().sum().item()
    return [whole, parted, *train(model, x)]


@section("a pipeline with send and recv", tolerance=1e-3)
def pipeline():
    torch.manual_seed(11 + RANK)
    stage = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256)).to(DEVICE)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.05)
    torch.manual_seed(13)
    whole, losses = torch.randn(4, 32, 256).to(DEVICE), torch.zeros(3, device=DEVICE)
    for step in range(3):
        optimizer.zero_grad()
        outputs = []
        for part in whole:  # each microbatch goes on before the next begins
            entered = part
            if RANK > 0:
                entered = torch.empty(32, 256, device=DEVICE)
                dist.recv(entered, BEFORE)
                entered.requires_grad_()
            output = stage(entered)
            if RANK < LAST:
                dist.send(output.detach(), AFTER)
            else:
                output = (output - part).square().mean()
            outputs.append((entered, output))
        for entered, output in outputs:
            gradient = None
            if RANK < LAST:
                gradient = torch.empty(32, 256, device=DEVICE)
                dist.recv(gradient, AFTER)
            output.backward(gradient)
            if RANK > 0:
                dist.send(entered.grad, BEFORE)
            if RANK == LAST:
                losses[step] += output.detach() / len(outputs)
        optimizer.step()
    dist.broadcast(losses, LAST)
    return losses.tolist()


@section("a pipeline: GPipe", tolerance=1e-3)
def gpipe():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(11 + RANK)
    part = nn.Sequential(nn.Linear(256, 256), nn.Tanh()).to(DEVICE)
    torch.manual_seed(13)
    x = torch.randn(64, 256).to(DEVICE)
    schedule = ScheduleGPipe(PipelineStage(part, RANK, WORLD, DEVICE), 4,
                             loss_fn=lambda y, target: (y - target).square().mean())
    losses = []
    if RANK == 0:
        schedule.step(x)
    elif RANK < LAST:
        schedule.step()
    else:
        schedule.step(target=x, losses=losses)
    gradient = torch.stack([p.grad.square().sum() for p in part.parameters()]).sum()
    value = torch.stack([gradient, torch.stack(losses).mean() if losses else gradient * 0])
    dist.broadcast(value, LAST)
    return value.tolist()


@section("a tensor of the other process")
def opened():
    if REMOTE:
        return None
    if RANK == 0:
        x = torch.arange(1 << 20, dtype=torch.float32, device=DEVICE)
        torch.cuda.synchronize()
        for other in range(1, WORLD):
            STORE.set(f"tensor{other}", ForkingPickler.dumps(x).tobytes())
        STORE.wait([f"changed{LAST}"])
        torch.cuda.synchronize()
        result = [x[0].item(), x[-1].item()]
        STORE.set("seen", b"1")
        return result
    if RANK > 1:  # one after the other
        STORE.wait([f"changed{BEFORE}"])
    there = pickle.loads(STORE.get(f"tensor{RANK}"))
    here = there.to(DEVICE)
    there += 3
    torch.cuda.synchronize(there.device)
    right = here[5].item() == 5 + 3 * (RANK - 1) and there.device.index == 0
    STORE.set(f"changed{RANK}", b"1")
    STORE.wait(["seen"])
    if not right:
        raise RuntimeError(f"{here[5].item()} on {there.device}")
    return None


@section("destroy_process_group")
def destroy():
    dist.barrier(device_ids=[DEVICE.index])
    dist.destroy_process_group()
    return dist.is_initialized()


sys.argv = sys.argv[:1]
run(torch.cuda.synchronize)
