# SPDX-License-Identifier: Apache-2.0
"""Triton: kernels that it compiles here."""

from sections import imported, run, section

import torch
import triton
import triton.language as tl

imported("import triton")


@triton.jit
def add_kernel(x, y, out, n, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax_kernel(x, out, columns, SIZE: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, SIZE)
    v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@triton.autotune([triton.Config({"M": m, "N": 64, "K": 32}, num_warps=w) for m in (32, 64)
                  for w in (2, 4)], key=["size"])
@triton.jit
def matmul_kernel(a, b, c, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    sum = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, size, K):
        left = tl.load(a + rows[:, None] * size + (step + k)[None, :])
        right = tl.load(b + (step + k)[:, None] * size + columns[None, :])
        sum = tl.dot(left, right, sum)
    tl.store(c + rows[:, None] * size + columns[None, :], sum)


@section("elementwise", repeat=2)
def add():
    torch.manual_seed(1)
    x, y = torch.randn(10000).cuda(), torch.randn(10000).cuda()
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(10000, 1024),)](x, y, out, 10000, SIZE=1024)
    return [out.sum().item(), bool(torch.equal(out, x + y))]


@section("reduction (softmax)", repeat=2)
def softmax():
    torch.manual_seed(2)
    x = torch.randn(128, 781).cuda()
    out = torch.empty_like(x)
    softmax_kernel[(128,)](x, out, 781, SIZE=1024)
    return [out.square().sum().item(), bool(torch.allclose(out, x.softmax(1), atol=1e-6))]


@section("matmul, autotuned", tolerance=1e-2)
def matmul():
    torch.manual_seed(3)
    a, b = torch.randn(512, 512).cuda().half(), torch.randn(512, 512).cuda().half()
    c = torch.empty(512, 512, device="cuda")
    matmul_kernel[lambda m: (512 // m["M"], 512 // m["N"])](a, b, c, 512)
    return [c.abs().mean().item(), bool(torch.allclose(c, (a @ b).float(), atol=0.2, rtol=1e-2))]


if __name__ == "__main__":
    run(torch.cuda.synchronize)
