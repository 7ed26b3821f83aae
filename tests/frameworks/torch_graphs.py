# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs, expandable segments and the asynchronous allocator in PyTorch."""

import os
import subprocess
import sys

from sections import imported, run, section

import torch

imported("import torch")


@section("CUDA graph: capture and 20 replays")
def graph():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(),
                              torch.nn.Linear(256, 8)).cuda()
    x = torch.randn(32, 256).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(g):
        y = net(x)
    for i in range(20):
        x.add_(0.01 * i)
        g.replay()
    return [y.sum().item(), torch.allclose(y, net(x), atol=1e-5)]


CHILD = """
import torch
a = [torch.ones(n << 20, dtype=torch.uint8, device='cuda') for n in range(8, 40, 4)]
b = torch.cat(a[::2]); del a
print(b.long().sum().item(), torch.cuda.memory_reserved() > 0)
"""


def child(setting):
    env = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=setting)
    p = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, text=True,
                       timeout=100)
    if p.returncode:
        raise RuntimeError(p.stderr.strip().splitlines()[-1] if p.stderr.strip()
                           else f"exit {p.returncode}")
    return p.stdout.strip()


@section("expandable segments")
def expandable():
    return child("expandable_segments:True")


@section("allocator cudaMallocAsync")
def malloc_async():
    return child("backend:cudaMallocAsync")


if __name__ == "__main__":
    run(torch.cuda.synchronize)
