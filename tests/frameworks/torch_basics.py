# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own operations, one after the other."""

from sections import imported, report, run, section

import torch

imported("import torch")
torch.manual_seed(1)
A = torch.randn(2048, 2048)
B = torch.randn(2048, 2048)


def summary(t):
    t = t.detach().double()
    return [t.sum().item(), t.abs().mean().item(), t.flatten()[7].item()]


@section("tensors: transfer, elementwise, reduction", repeat=2)
def tensors():
    x = A.cuda()
    return summary((x.sin() * 2 + x).relu()) + [x.max().item(), x.argmax().item(),
                                                bool(torch.equal(x.cpu(), A))]


@section("matmul f32", repeat=2)
def matmul_f32():
    return summary(A.cuda() @ B.cuda())


@section("matmul tf32", repeat=2)
def matmul_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return summary(A.cuda() @ B.cuda())
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@section("matmul bf16", repeat=2)
def matmul_bf16():
    return summary(A.cuda().bfloat16() @ B.cuda().bfloat16())


@section("matmul f16", repeat=2)
def matmul_f16():
    return summary(A.cuda().half() @ B.cuda().half())


@section("linear with bias (cublasLt)", repeat=2)
def linear():
    return summary(torch.addmm(B[0].cuda(), A.cuda().half().float(), B.cuda()))


@section("convolution (cuDNN)", repeat=2, tolerance=1e-3)
def convolution():
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32),
                              torch.nn.ReLU(),
                              torch.nn.Conv2d(32, 64, 3, stride=2)).cuda()
    x = torch.randn(8, 3, 64, 64).cuda().requires_grad_()
    y = net(x)
    y.square().mean().backward()
    return summary(y) + summary(x.grad)


@section("attention (scaled dot product)", repeat=2, tolerance=1e-3)
def attention():
    q, k, v = (torch.randn(4, 8, 256, 64, generator=torch.Generator().manual_seed(i)).cuda().half()
               for i in range(3))
    return summary(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


@section("FFT (cuFFT)", repeat=2)
def fft():
    x = A.cuda()
    return summary(torch.fft.fft2(x).abs()) + summary(torch.fft.irfft(torch.fft.rfft(x)))


@section("sparse (cuSPARSE)", repeat=2)
def sparse():
    s = torch.where(A.abs() > 2.5, A, torch.zeros(())).to_sparse_csr().cuda()
    return summary(s @ B.cuda()) + [s._nnz()]


@section("linear algebra (cuSOLVER)", repeat=2, tolerance=1e-3)
def linalg():
    m = (A[:256, :256] @ A[:256, :256].T + 256 * torch.eye(256)).cuda()
    return (summary(torch.linalg.cholesky(m)) +
            summary(torch.linalg.solve(m, B[:256, :256].cuda())) +
            summary(torch.linalg.eigvalsh(m)) + summary(torch.linalg.svdvals(A[:128, :128].cuda())))


@section("random numbers (cuRAND)")
def random():
    torch.manual_seed(5)
    return summary(torch.randn(10000, device="cuda")) + summary(torch.rand(10000, device="cuda"))


@section("sort, index, scatter, cumsum", repeat=2)
def indexing():
    x = A.cuda().flatten()
    order = x.argsort()
    places = torch.arange(x.numel(), device="cuda") % 100
    bins = torch.zeros(100, device="cuda").index_add_(0, places, x)
    first = order[:5].tolist() == A.flatten().argsort()[:5].tolist()
    return summary(x[order].cumsum(0)) + [first] + [bins.shape[0]]


@section("autograd, AdamW: 50 steps", repeat=2, tolerance=1e-3)
def optimiser():
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(),
                              torch.nn.Linear(512, 10)).cuda()
    opt = torch.optim.AdamW(net.parameters())
    x, y = torch.randn(64, 512).cuda(), torch.randint(0, 10, (64,)).cuda()
    for _ in range(50):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
    return loss.item()


@section("AMP: 20 steps with a gradient scaler", repeat=2, tolerance=2e-2)
def amp():
    torch.manual_seed(4)
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(),
                              torch.nn.Linear(256, 1)).cuda()
    opt, scaler = torch.optim.SGD(net.parameters(), lr=1e-2), torch.amp.GradScaler("cuda")
    x, y = torch.randn(128, 256).cuda(), torch.randn(128, 1).cuda()
    for _ in range(20):
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    return loss.item()


@section("streams and events", repeat=2)
def streams():
    x = A.cuda()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(first):
        begin.record()
        y = x @ x
        end.record()
    second.wait_event(end)
    with torch.cuda.stream(second):
        z = y + 1
    torch.cuda.synchronize()
    return summary(z) + [begin.elapsed_time(end) > 0, first.query()]


@section("pinned memory, asynchronous copies", repeat=2)
def pinned():
    host = A.pin_memory()
    x = host.cuda(non_blocking=True)
    back = torch.empty_like(host, pin_memory=True)
    back.copy_(x, non_blocking=True)
    torch.cuda.synchronize()
    return [host.is_pinned(), bool(torch.equal(back, A))]


@section("torch.cuda.memory_*")
def memory():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    grown = torch.cuda.memory_allocated() - before
    peak = torch.cuda.max_memory_allocated() - before
    del x
    free, total = torch.cuda.mem_get_info()
    return [grown, peak, torch.cuda.memory_reserved() > 0, 0 < free < total,
            bool(torch.cuda.memory_summary())]


@section("out of memory, then work")
def out_of_memory():
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
        return "allocated"
    except torch.OutOfMemoryError:
        return ["OutOfMemoryError", torch.ones(10, device="cuda").sum().item()]


@section("device properties")
def properties():
    p = torch.cuda.get_device_properties(0)
    return [p.name, p.major, p.minor, p.multi_processor_count, p.warp_size,
            torch.cuda.device_count(),
            torch.cuda.is_bf16_supported()]


if __name__ == "__main__":
    torch.ones(1, device="cuda").item()
    imported("first result")
    run(torch.cuda.synchronize)
    report("exit")
