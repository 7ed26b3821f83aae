# SPDX-License-Identifier: Apache-2.0
"""CuPy with two GPUs in one process: memory, streams and events of each, copies, and kernels that
reach the other's memory."""

from sections import imported, run, section

import cupy

imported("import cupy")

add = cupy.RawKernel(r"""
extern "C" __global__ void add(float *to, const float *from, float more, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + more;
}""", "add")
N = 1 << 20


def on(gpu):
    with cupy.cuda.Device(gpu):
        return cupy.arange(N, dtype=cupy.float32) + gpu


def synchronize():
    for gpu in range(cupy.cuda.runtime.getDeviceCount()):
        cupy.cuda.Device(gpu).synchronize()


@section("devices")
def devices():
    can = [cupy.cuda.runtime.deviceCanAccessPeer(i, 1 - i) for i in range(2)]
    return [cupy.cuda.runtime.getDeviceCount(), *can]


@section("memory of each GPU")
def memory():
    a, b = on(0), on(1)
    return [a.device.id, b.device.id, a.data.device_id, b.data.device_id,
            float(a[0]), float(b[0])]


@section("copies from GPU to GPU", repeat=2)
def copies():
    a = on(0)
    with cupy.cuda.Device(1):
        b = cupy.asarray(a)  # is on the current GPU
        b += 1
    with cupy.cuda.Device(0):
        c = cupy.empty(N, cupy.float32)
        c.data.copy_from_device_async(b.data, c.nbytes, cupy.cuda.Stream.null)
        synchronize()
        return [b.device.id, float(c[0]), float(c[-1])]


@section("a kernel that reads and writes the other's memory", repeat=2)
def reach():
    for i in range(2):
        with cupy.cuda.Device(i):
            try:
                cupy.cuda.runtime.deviceEnablePeerAccess(1 - i)
            except cupy.cuda.runtime.CUDARuntimeError as e:
                if "AlreadyEnabled" not in str(e):
                    raise
    a, b = on(0), on(1)
    synchronize()
    with cupy.cuda.Device(0):
        add((N // 256,), (256,), (a, b, cupy.float32(5), cupy.int32(N)))
        add((N // 256,), (256,), (b, a, cupy.float32(5), cupy.int32(N)))
        synchronize()
        first = float(a[7])
    with cupy.cuda.Device(1):
        return [first, float(b[7]), float(b[-1])]


@section("streams and events of both", repeat=2)
def order():
    streams, events = [], []
    for i in range(2):
        with cupy.cuda.Device(i):
            streams.append(cupy.cuda.Stream(non_blocking=True))
            events.append(cupy.cuda.Event(disable_timing=True))
    x = on(1)
    synchronize()
    for i in range(20):
        with cupy.cuda.Device(i % 2), streams[i % 2]:
            add((N // 256,), (256,), (x, x, cupy.float32(1), cupy.int32(N)))
            events[i % 2].record(streams[i % 2])
        streams[1 - i % 2].wait_event(events[i % 2])
    synchronize()
    with cupy.cuda.Device(1):
        return [float(x[0]), float(x[-1])]


@section("a matrix product on each", tolerance=1e-3, repeat=2)
def products():
    values = []
    for i in range(2):
        with cupy.cuda.Device(i):
            cupy.random.seed(3)
            a = cupy.random.standard_normal((512, 512), dtype=cupy.float32)
            values.append(float(cupy.abs(a @ a).mean()))
    return values


if __name__ == "__main__":
    run(synchronize)
