# SPDX-License-Identifier: Apache-2.0
"""CuPy: arrays, kernels from source, libraries, memory."""

from sections import imported, run, section

import cupy as cp
import numpy as np

imported("import cupy")
A = np.random.default_rng(1).standard_normal((512, 512)).astype(np.float32)


def summary(x):
    x = cp.asarray(x)
    return [float(x.astype(cp.float64).sum()), float(abs(x).mean())]


@section("elementwise, reduction", repeat=2)
def arrays():
    x = cp.asarray(A)
    return summary(cp.sin(x) ** 2 + x) + [float(x.max()), int(x.argmax()),
                                          summary(cp.sort(x.ravel())[:100])[0]]


@section("ElementwiseKernel, ReductionKernel", repeat=2)
def kernels():
    f = cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * y + 1", "multiply_add")
    r = cp.ReductionKernel("float32 x", "float32 y", "x * x", "a + b", "y = sqrt(a)", "0", "norm2")
    x = cp.asarray(A)
    return summary(f(x, x)) + [float(r(x))]


SOURCE = r"""
extern "C" __global__ void twice(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
extern "C" __global__ void fill(float *x, int n, float v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = v;
}
"""


@section("RawKernel", repeat=2)
def raw_kernel():
    k = cp.RawKernel(SOURCE, "twice")
    x = cp.arange(1000, dtype=cp.float32)
    k((4,), (256,), (x, np.int32(1000)))
    return float(x.sum())


@section("RawModule", repeat=2)
def raw_module():
    m = cp.RawModule(code=SOURCE)
    x = cp.zeros(1000, dtype=cp.float32)
    m.get_function("fill")((4,), (256,), (x, np.int32(1000), np.float32(3)))
    m.get_function("twice")((4,), (256,), (x, np.int32(1000)))
    return float(x.sum())


@section("linalg (cuBLAS, cuSOLVER)", repeat=2, tolerance=1e-3)
def linalg():
    x = cp.asarray(A)
    m = x @ x.T + 512 * cp.eye(512, dtype=cp.float32)
    return (summary(x @ x) + [float(cp.linalg.norm(x))] + summary(cp.linalg.solve(m, x)) +
            summary(cp.linalg.cholesky(m)) +
            summary(cp.linalg.svd(x[:64, :64], compute_uv=False)))


@section("FFT (cuFFT)", repeat=2)
def fft():
    x = cp.asarray(A)
    return summary(abs(cp.fft.fft2(x))) + summary(cp.fft.irfft(cp.fft.rfft(x)))


@section("random numbers (cuRAND)")
def random():
    return summary(cp.random.RandomState(7).standard_normal(10000))


@section("pinned memory")
def pinned():
    memory = cp.cuda.alloc_pinned_memory(A.nbytes)
    host = np.frombuffer(memory, np.float32, A.size).reshape(A.shape)
    host[...] = A
    x = cp.empty_like(host)
    with cp.cuda.Stream(non_blocking=True) as s:
        x.set(host, stream=s)
        s.synchronize()
    return summary(x) + [bool((cp.asnumpy(x) == A).all())]


@section("memory pools")
def pools():
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        x = cp.ones(1 << 20, dtype=cp.float32)
        used = pool.used_bytes()
        total = float(x.sum())
        del x
    pool.free_all_blocks()
    return [used, total, pool.used_bytes()]


@section("asynchronous pool (cudaMallocAsync)")
def async_pool():
    pool = cp.cuda.MemoryAsyncPool()
    with cp.cuda.using_allocator(pool.malloc):
        return float(cp.ones(1 << 20, dtype=cp.float32).sum())


@section("managed memory")
def managed():
    with cp.cuda.using_allocator(cp.cuda.malloc_managed):
        return float(cp.ones(1 << 16, dtype=cp.float32).sum())


@section("streams and events")
def streams():
    x = cp.asarray(A)
    a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream()
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    cp.cuda.get_current_stream().synchronize()
    with a:
        begin.record()
        y = x @ x
        end.record()
    b.wait_event(end)
    with b:
        z = y + 1
    b.synchronize()
    return summary(z) + [cp.cuda.get_elapsed_time(begin, end) > 0]


if __name__ == "__main__":
    float(cp.ones(1).sum())
    imported("first result")
    run(lambda: cp.cuda.Device().synchronize())
