# SPDX-License-Identifier: Apache-2.0
"""torch.compile: Inductor makes Triton kernels."""

from sections import imported, run, section

import torch

imported("import torch")


@section("torch.compile: elementwise and reduction", tolerance=1e-4)
def fused():
    torch.manual_seed(1)
    x = torch.randn(256, 256).cuda()
    f = torch.compile(lambda t: (t.sin() * t.exp()).sum(1).softmax(0))
    y = f(x)
    return [y.sum().item(), y.max().item(),
            bool(torch.allclose(y, (x.sin() * x.exp()).sum(1).softmax(0), atol=1e-5))]


@section("torch.compile: a training step", tolerance=1e-3)
def step():
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(),
                              torch.nn.Linear(64, 1)).cuda()
    compiled = torch.compile(net)
    x = torch.randn(32, 64).cuda()
    compiled(x).square().mean().backward()
    return [p.grad.abs().sum().item() for p in net.parameters()]


if __name__ == "__main__":
    run(torch.cuda.synchronize)
