// SPDX-License-Identifier: Apache-2.0
// Kernels of two GPUs that wait for one another in the other's memory: launched one by one, as a
// cooperative kernel on both, and as nodes of a graph. Then a graph over both GPUs that is made
// node by node, and managed memory and variables that both reach.
#include "driver.h"
#include <vector>

static const unsigned blocks = 8, threads = 64, rounds = 20;

static __device__ __managed__ unsigned managed = 5;

static CUcontext context[2];
static CUstream stream[2];
static CUdeviceptr flags[2]; // of each GPU: one for each block of its kernel
static CUfunction waits[2], adds[2];

// Block b of one GPU and block b of the other go on together: each says how far it is in its own
// memory, and waits until the other, in the other's memory, is as far.
static __device__ void meet(volatile unsigned *mine, volatile unsigned *others, unsigned n,
                            unsigned from) {
    if (threadIdx.x == 0)
        for (unsigned k = from + 1; k <= from + n; k++) {
            mine[blockIdx.x] = k;
            __threadfence_system();
            while (others[blockIdx.x] < k) {}
        }
    __syncthreads();
    if (threadIdx.x == 1) mine[gridDim.x + blockIdx.x] += n;
}

static __global__ void together(volatile unsigned *mine, volatile unsigned *others, unsigned n,
                                unsigned from) {
    meet(mine, others, n, from);
}

// This one is asked for by its name.
extern "C" __global__ void named(volatile unsigned *mine, volatile unsigned *others, unsigned n,
                                 unsigned from) {
    meet(mine, others, n, from);
}

static __global__ void add(unsigned *p, unsigned value) { atomicAdd_system(p, value); }

static void enter(int i) { CHECKCU(cuCtxSetCurrent(context[i])); }

static void finish() {
    for (int i = 0; i < 2; i++) {
        enter(i);
        CHECKCU(cuCtxSynchronize());
    }
}

static void say(const char *what) {
    unsigned sum = 0, v[2 * blocks];
    finish();
    for (int i = 0; i < 2; i++) {
        enter(i);
        CHECKCU(cuMemcpyDtoH(v, flags[i], sizeof v));
        for (unsigned b = 0; b < blocks; b++) sum += v[blocks + b];
        CHECKCU(cuMemsetD8(flags[i], 0, sizeof v));
    }
    finish();
    printf("%s: %u\n", what, sum);
    fflush(stdout);
}

// Parameters of the kernel on GPU i.
struct Parameters {
    CUdeviceptr mine, others;
    unsigned n, from;
    void *list[4] = {&mine, &others, &n, &from};
    explicit Parameters(int i, unsigned from = 0)
        : mine(flags[i]), others(flags[1 - i]), n(rounds), from(from) {}
};

static void launch(int i, Parameters &p) {
    enter(i);
    CHECKCU(cuLaunchKernel(waits[i], blocks, 1, 1, threads, 1, 1, 0, stream[i], p.list, nullptr));
}

static void oneByOne() {
    Parameters p[2] = {Parameters(0), Parameters(1)};
    launch(0, p[0]);
    launch(1, p[1]);
    say("launched on both");
    // More than one after the other on each, all of them before any has ended.
    for (int i = 0; i < 2; i++)
        for (unsigned k = 0; k < 3; k++) {
            Parameters q(i, k * rounds);
            launch(i, q);
        }
    say("three on each");
}

// Launch is CUDA_LAUNCH_PARAMS, which not every header has.
struct Launch {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **parameters;
};

static void cooperative() {
    void *f;
    CUdriverProcAddressQueryResult found;
    CHECKCU(cuGetProcAddress("cuLaunchCooperativeKernelMultiDevice", &f, 9000, 0, &found));
    auto start = (CUresult(*)(Launch *, unsigned, unsigned))f;
    Parameters p[2] = {Parameters(0), Parameters(1)};
    Launch good[2], list[2];
    for (int i = 0; i < 2; i++)
        good[i] = {waits[i], {blocks, 1, 1}, {threads, 1, 1}, 0, stream[i], p[i].list};
    for (unsigned flags = 0; flags < 4; flags++) {
        REPORTCU(start(good, 2, flags));
        say("a cooperative kernel on both");
    }
    memcpy(list, good, sizeof list);
    list[1].stream = stream[0];
    REPORTCU(start(list, 2, 0));
    memcpy(list, good, sizeof list);
    list[1].grid[0]++;
    REPORTCU(start(list, 2, 0));
    memcpy(list, good, sizeof list);
    for (Launch &l : list) l.grid[0] = 100000000;
    REPORTCU(start(list, 2, 0));
    CHECKCU(cuCtxSetCurrent(nullptr));
    REPORTCU(start(good, 2, 0));
    say("without a current context");
}

// A function belongs to the context of its module, whichever is current when it is asked for.
static void ofModules() {
    void *f;
    CUdriverProcAddressQueryResult found;
    CHECKCU(cuGetProcAddress("cuLaunchCooperativeKernelMultiDevice", &f, 9000, 0, &found));
    Parameters p[2] = {Parameters(0), Parameters(1)};
    Launch list[2];
    enter(1);
    for (int i = 0; i < 2; i++) {
        CUmodule module;
        list[i] = {nullptr, {blocks, 1, 1}, {threads, 1, 1}, 0, stream[i], p[i].list};
        CHECKCU(cuFuncGetModule(&module, waits[i]));
        CHECKCU(cuModuleGetFunction(&list[i].function, module, "named"));
    }
    auto start = (CUresult(*)(Launch *, unsigned, unsigned))f;
    REPORTCU(start(list, 2, 0));
    say("functions of modules");
}

// Two branches of a graph wait for one another: both GPUs have to run at once.
static void captured() {
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes;
    enter(0);
    CHECKCU(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    CHECKCU(cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECKCU(cuEventRecord(fork, stream[0]));
    enter(1);
    CHECKCU(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    CHECKCU(cuStreamWaitEvent(stream[1], fork, 0));
    Parameters p[2] = {Parameters(0), Parameters(1)};
    for (int i = 0; i < 2; i++) launch(i, p[i]);
    enter(1);
    CHECKCU(cuEventRecord(join, stream[1]));
    enter(0);
    CHECKCU(cuStreamWaitEvent(stream[0], join, 0));
    CHECKCU(cuStreamEndCapture(stream[0], &graph));
    CHECKCU(cuGraphGetNodes(graph, nullptr, &nodes));
    CHECKCU(cuGraphInstantiate(&exec, graph, 0));
    CHECKCU(cuGraphLaunch(exec, stream[0]));
    printf("%zu nodes; ", nodes);
    say("branches of a graph");
    enter(0);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
}

// A graph that is made node by node: fills, kernels and copies of both GPUs, one after the other.
static void byNodes() {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode last[2] = {}, node;
    CUdeviceptr at[2];
    unsigned got[2];
    for (int i = 0; i < 2; i++) {
        enter(i);
        CHECKCU(cuMemAlloc(&at[i], 4));
    }
    enter(0);
    CHECKCU(cuGraphCreate(&graph, 0));
    for (int i = 0; i < 2; i++) {
        CUDA_MEMSET_NODE_PARAMS fill = {};
        fill.dst = at[i];
        fill.value = 10 * (i + 1);
        fill.elementSize = 4;
        fill.width = fill.height = 1;
        CHECKCU(cuGraphAddMemsetNode(&last[i], graph, nullptr, 0, &fill, context[i]));
        unsigned value = 1 + i;
        void *list[] = {&at[i], &value};
        CUDA_KERNEL_NODE_PARAMS kernel = {};
        kernel.func = adds[i];
        kernel.gridDimX = 4;
        kernel.gridDimY = kernel.gridDimZ = 1;
        kernel.blockDimX = 32;
        kernel.blockDimY = kernel.blockDimZ = 1;
        kernel.kernelParams = list;
        kernel.ctx = context[i];
        CHECKCU(cuGraphAddKernelNode(&node, graph, &last[i], 1, &kernel));
        last[i] = node;
    }
    // The second GPU's number goes to the first one, behind both kernels.
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = at[1];
    copy.dstDevice = at[0];
    copy.WidthInBytes = 4;
    copy.Height = copy.Depth = 1;
    CHECKCU(cuGraphAddMemcpyNode(&node, graph, last, 2, &copy, context[0]));
    CHECKCU(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) CHECKCU(cuGraphLaunch(exec, stream[i % 2]));
    finish();
    for (int i = 0; i < 2; i++) CHECKCU(cuMemcpyDtoH(&got[i], at[i], 4));
    printf("node by node: %u and %u\n", got[0], got[1]);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
}

// Managed memory is both GPUs' and the host's.
static void shared() {
    unsigned *p;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocManaged(&p, 4));
    *p = 100;
    for (int k = 0; k < 4; k++) {
        CHECK(cudaSetDevice(k % 2));
        add<<<2, 32>>>(p, 1);
        add<<<2, 32>>>(&managed, 2);
        CHECK(cudaDeviceSynchronize());
    }
    printf("managed: %u and %u\n", *p, managed);
    for (int k = 0; k < 2; k++) {
        CHECK(cudaSetDevice(k));
        add<<<2, 32>>>(p, 1); // of both at once
    }
    finish();
    printf("of both at once: %u\n", *p);
    CHECK(cudaFree(p));
}

int main() {
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    REQUIRE(devices >= 2);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaFree(nullptr));
        CHECK(cudaDeviceEnablePeerAccess(1 - i, 0));
        CHECKCU(cuCtxGetCurrent(&context[i]));
        CHECKCU(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        CHECKCU(cuMemAlloc(&flags[i], 2 * blocks * 4));
        CHECKCU(cuMemsetD8(flags[i], 0, 2 * blocks * 4));
        CHECK(cudaGetFuncBySymbol(&waits[i], (const void *)together));
        CHECK(cudaGetFuncBySymbol(&adds[i], (const void *)add));
    }
    finish();
    oneByOne();
    cooperative();
    ofModules();
    captured();
    byNodes();
    shared();
}
