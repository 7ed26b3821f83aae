// SPDX-License-Identifier: Apache-2.0
// cuLaunchCooperativeKernelMultiDevice on one device: the launch, and what is refused.
#include "versions.h"

// The list's entries: CUDA_LAUNCH_PARAMS, which not every header has.
struct Launch {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **parameters;
};

static __global__ void add(int *to) { atomicAdd(to + blockIdx.x, 1); }

int main() {
    openDevice();
    auto launch =
        get<CUresult(Launch *, unsigned, unsigned)>("cuLaunchCooperativeKernelMultiDevice", 9000);
    CUdeviceptr memory;
    CUfunction f;
    CUstream stream, other;
    CUcontext context;
    CHECKCU(cuMemAlloc(&memory, 16));
    CHECKCU(cuMemsetD8(memory, 0, 16));
    CHECKCU(cuStreamCreate(&stream, 0));
    CHECKCU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cudaGetFuncBySymbol(&f, (const void *)add));
    void *parameters[] = {&memory};
    const Launch good = {f, {4, 1, 1}, {32, 1, 1}, 0, stream, parameters};
    Launch list[2] = {good, good};
    for (unsigned flags = 0; flags < 5; flags++) REPORTCU(launch(list, 1, flags));
    REPORTCU(launch(nullptr, 1, 0));
    REPORTCU(launch(list, 0, 0));
    list[1].stream = other;
    REPORTCU(launch(list, 2, 0));
    for (CUstream s : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
        list[0].stream = s;
        REPORTCU(launch(list, 1, 0));
    }
    list[0] = good;
    list[0].function = nullptr;
    REPORTCU(launch(list, 1, 0));
    list[0] = good;
    list[0].grid[0] = 0;
    REPORTCU(launch(list, 1, 0));
    list[0].grid[0] = 100000000;
    REPORTCU(launch(list, 1, 0));
    list[0] = good;
    list[0].parameters = nullptr;
    REPORTCU(launch(list, 1, 0));
    list[0] = good;

    CUgraph graph = nullptr;
    CHECKCU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    REPORTCU(launch(list, 1, 0));
    REPORTCU(cuStreamEndCapture(stream, &graph));

    // The stream says in which context it is.
    CHECKCU(cuCtxPopCurrent(&context));
    REPORTCU(launch(list, 1, 0));
    CUcontext now;
    CHECKCU(cuCtxGetCurrent(&now));
    printf("no context is current: %s\n", now ? "no" : "yes");
    CHECKCU(cuCtxPushCurrent(context));
    CHECKCU(cuCtxSynchronize());
    int sums[4];
    CHECKCU(cuMemcpyDtoH(sums, memory, 16));
    printf("%d %d %d %d\n", sums[0], sums[1], sums[2], sums[3]);
}
