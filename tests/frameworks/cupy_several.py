# SPDX-License-Identifier: Apache-2.0
"""CuPy with all GPUs in one process, two at least: memory, streams and events of each, copies, and
kernels that reach the others' memory."""

from sections import imported, run, section

import cupy

imported("import cupy")

add = cupy.RawKernel(r"""
extern "C" __global__ void add(float *to, const float *from, float more, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + more;
}""", "add")
N = 1 << 20
GPUS = cupy.cuda.runtime.getDeviceCount()
PAIRS = [(i, j) for i in range(GPUS) for j in range(GPUS) if i != j]


def on(gpu):
    with cupy.cuda.Device(gpu):
        return cupy.arange(N, dtype=cupy.float32) + gpu


def synchronize():
    for gpu in range(GPUS):
        cupy.cuda.Device(gpu).synchronize()


@section("devices")
def devices():
    return [GPUS, *(cupy.cuda.runtime.deviceCanAccessPeer(i, j) for i, j in PAIRS)]


@section("memory of each GPU")
def memory():
    all_of_them = [on(gpu) for gpu in range(GPUS)]
    return [*(a.device.id for a in all_of_them), *(a.data.device_id for a in all_of_them),
            *(float(a[0]) for a in all_of_them)]


@section("copies from GPU to GPU", repeat=2)
def copies():
    b = on(0)
    for gpu in range(1, GPUS):
        with cupy.cuda.Device(gpu):
            b = cupy.asarray(b)  # is on the current GPU
            b += 1
        synchronize()
    with cupy.cuda.Device(0):
        c = cupy.empty(N, cupy.float32)
        c.data.copy_from_device_async(b.data, c.nbytes, cupy.cuda.Stream.null)
        synchronize()
        return [b.device.id, float(c[0]), float(c[-1])]


@section("a kernel that reads and writes the other's memory", repeat=2)
def reach():
    for i, j in PAIRS:
        with cupy.cuda.Device(i):
            try:
                cupy.cuda.runtime.deviceEnablePeerAccess(j)
            except cupy.cuda.runtime.CUDARuntimeError as e:
                if "AlreadyEnabled" not in str(e):
                    raise
    a, *others = [on(gpu) for gpu in range(GPUS)]
    synchronize()
    values = []
    for gpu, b in enumerate(others, 1):
        with cupy.cuda.Device(0):
            add((N // 256,), (256,), (a, b, cupy.float32(5), cupy.int32(N)))
            add((N // 256,), (256,), (b, a, cupy.float32(5), cupy.int32(N)))
            synchronize()
            values.append(float(a[7]))
        with cupy.cuda.Device(gpu):
            values += [float(b[7]), float(b[-1])]
    return values


@section("streams and events of both", repeat=2)
def order():
    streams, events = [], []
    for i in range(GPUS):
        with cupy.cuda.Device(i):
            streams.append(cupy.cuda.Stream(non_blocking=True))
            events.append(cupy.cuda.Event(disable_timing=True))
    x = on(1)
    synchronize()
    for i in range(20):
        gpu = i % GPUS
        with cupy.cuda.Device(gpu), streams[gpu]:
            add((N // 256,), (256,), (x, x, cupy.float32(1), cupy.int32(N)))
            events[gpu].record(streams[gpu])
        streams[(gpu + 1) % GPUS].wait_event(events[gpu])
    synchronize()
    with cupy.cuda.Device(1):
        return [float(x[0]), float(x[-1])]


@section("a matrix product on each", tolerance=1e-3, repeat=2)
def products():
    values = []
    for i in range(GPUS):
        with cupy.cuda.Device(i):
            cupy.random.seed(3)
            a = cupy.random.standard_normal((512, 512), dtype=cupy.float32)
            values.append(float(cupy.abs(a @ a).mean()))
    return values


if __name__ == "__main__":
    run(synchronize)
