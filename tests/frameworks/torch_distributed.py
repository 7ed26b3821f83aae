# SPDX-License-Identifier: Apache-2.0
"""torch.distributed with nccl on one GPU: a world of one process, its collectives, DDP."""

import socket
import warnings

from sections import imported, run, section

import torch
import torch.distributed as dist

imported("import torch")
warnings.simplefilter("ignore")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@section("init_process_group")
def init():
    store = dist.TCPStore("127.0.0.1", free_port(), 1, True)
    device = torch.device("cuda:0")
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=device)
    return [dist.get_backend(), dist.get_rank(), dist.get_world_size(), *torch.cuda.nccl.version()]


@section("all_reduce, reduce, broadcast", repeat=2)
def reduce():
    x = torch.arange(1024, dtype=torch.float32, device="cuda")
    dist.all_reduce(x)
    dist.reduce(x, 0, op=dist.ReduceOp.MAX)
    dist.broadcast(x, 0)
    half = x.to(torch.bfloat16)
    dist.all_reduce(half, op=dist.ReduceOp.AVG)
    return [x.sum().item(), half.float().sum().item()]


@section("all_gather, reduce_scatter, all_to_all", repeat=2)
def gather():
    x = torch.arange(256, dtype=torch.int64, device="cuda")
    parts, scattered, exchanged = [torch.zeros_like(x)], torch.empty_like(x), torch.empty_like(x)
    dist.all_gather(parts, x)
    dist.reduce_scatter_tensor(scattered, x)
    dist.all_to_all_single(exchanged, x)
    return [t.sum().item() for t in (*parts, scattered, exchanged)]


@section("asynchronous, in a stream of its own")
def asynchronous():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(1 << 20, device="cuda")
        work = dist.all_reduce(x, async_op=True)
        y = torch.ones(8, device="cuda") * 3
        work.wait()
        total = (x.sum() + y.sum()).item()
    return [total, work.is_completed()]


@section("objects")
def objects():
    got = [None]
    dist.all_gather_object(got, {"rank": dist.get_rank(), "text": "one"})
    return sorted(f"{k}={v}" for k, v in got[0].items())


@section("barrier")
def barrier():
    dist.barrier(device_ids=[0])
    return "passed"


@section("a second group")
def group():
    other = dist.new_group([0])
    x = torch.full((4,), 2.0, device="cuda")
    dist.all_reduce(x, group=other)
    value = x.tolist()
    dist.destroy_process_group(other)
    return value


@section("captured in a CUDA graph")
def captured():
    x = torch.ones(512, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        dist.all_reduce(y)
    x.fill_(3)
    graph.replay()
    return y.sum().item()


@section("DDP: three steps", tolerance=1e-3)
def ddp():
    torch.manual_seed(3)
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)]
    inner = torch.nn.Sequential(*layers).cuda()
    model = torch.nn.parallel.DistributedDataParallel(inner, device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, losses = torch.randn(256, 64).cuda(), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@section("destroy_process_group")
def destroy():
    dist.destroy_process_group()
    return dist.is_initialized()


if __name__ == "__main__":
    run(torch.cuda.synchronize)
