// SPDX-License-Identifier: Apache-2.0
// Two GPUs of one process: copies between them, kernels that reach the other's memory, streams,
// events and graphs over both, and the errors of peer access.
#include "peercopies.h"

static __device__ int variable = 40;

// Adds to what lies at `from`, which may be another GPU's.
static __global__ void add(int *to, const int *from, int more) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i] + more;
}

static __global__ void count(int *at) { atomicAdd_system(at, 1); }

// Filling is kernels' work: the other GPU's memory has to be reached by this one.
static void fillOther(int *b) {
    CHECK(cudaSetDevice(0));
    REPORT(cudaMemset(b, 0, 4));
    REPORT(cudaGetLastError());
}

// The driver's own errors, in context 0, of context 1.
static void errors(CUcontext *c) {
    int can;
    REPORTCU(cuDeviceCanAccessPeer(&can, 0, 0));
    printf("itself: %d\n", can);
    REPORTCU(cuDeviceCanAccessPeer(&can, 0, 7));
    REPORTCU(cuDeviceCanAccessPeer(nullptr, 0, 1));
    REPORTCU(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
    REPORTCU(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    printf("access: %d\n", can);
    REPORTCU(cuCtxEnablePeerAccess(nullptr, 0));
    REPORTCU(cuCtxEnablePeerAccess(c[0], 0));
    REPORTCU(cuCtxEnablePeerAccess(c[1], 1));
    REPORTCU(cuCtxDisablePeerAccess(nullptr));
    REPORTCU(cuCtxDisablePeerAccess(c[1]));
    REPORTCU(cuCtxEnablePeerAccess(c[1], 0));
    REPORTCU(cuCtxEnablePeerAccess(c[1], 0));
    REPORTCU(cuCtxDisablePeerAccess(c[1]));
    REPORTCU(cuCtxDisablePeerAccess(c[1]));
}

static void kernels(int *a, int *b) {
    int *there, value;
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    fill<<<N / 256, 256>>>(b, 10);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    add<<<N / 256, 256>>>(a, b, 5);
    is(a, N, 15, "read from the other GPU");
    add<<<N / 256, 256>>>(b, a, 5);
    is(b, N, 20, "written to the other GPU");
    int *later = on(1, 256 << 20);
    CHECK(cudaSetDevice(0));
    fill<<<N / 256, 256>>>(later, 30);
    is(later, N, 30, "memory that came later");
    CHECK(cudaFree(later));
    CHECK(cudaSetDevice(1));
    CHECK(cudaGetSymbolAddress((void **)&there, variable));
    addOne<<<1, 1>>>(there);  // the GPU's own one: the other can't reach it, with access neither
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpyFromSymbol(&value, variable, 4));
    printf("variables: %d and ", value);
    CHECK(cudaSetDevice(1));
    CHECK(cudaMemcpyFromSymbol(&value, variable, 4));
    printf("%d\n", value);

    CHECK(cudaMemset(b, 0, 4));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        count<<<100, 128>>>(b);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(&value, b, 4, cudaMemcpyDeviceToHost));
    printf("counted by both: %d\n", value);
}

// A number goes to and fro, each time one larger; then the same as a graph.
static void order(int *b) {
    cudaStream_t s[2];
    cudaEvent_t e[2];
    int value;
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaStreamCreate(&s[i]));
        CHECK(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming));
    }
    CHECK(cudaMemset(b, 0, 4));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 100; i++) {
        CHECK(cudaSetDevice(i % 2));
        addOne<<<1, 1, 0, s[i % 2]>>>(b);
        CHECK(cudaEventRecord(e[i % 2], s[i % 2]));
        CHECK(cudaStreamWaitEvent(s[1 - i % 2], e[i % 2], 0));
    }
    CHECK(cudaStreamSynchronize(s[0]));
    CHECK(cudaMemcpy(&value, b, 4, cudaMemcpyDeviceToHost));
    printf("to and fro: %d\n", value);

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeGlobal));
    addOne<<<1, 1, 0, s[0]>>>(b);
    CHECK(cudaEventRecord(e[0], s[0]));
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamWaitEvent(s[1], e[0], 0));
    addOne<<<1, 1, 0, s[1]>>>(b);
    CHECK(cudaEventRecord(e[1], s[1]));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamWaitEvent(s[0], e[1], 0));
    addOne<<<1, 1, 0, s[0]>>>(b);
    CHECK(cudaStreamEndCapture(s[0], &graph));
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 10; i++) CHECK(cudaGraphLaunch(exec, s[0]));
    CHECK(cudaStreamSynchronize(s[0]));
    CHECK(cudaMemcpy(&value, b, 4, cudaMemcpyDeviceToHost));
    printf("a graph of %d nodes over both: %d\n", int(nodes), value);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    REPORT(cudaEventRecord(e[0], s[1]));
    REPORT(cudaGetLastError());
}

// Memory without an address is reached by whom it says.
static void mapped(int *a) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    const size_t bytes = 2 << 20;
    CUmemAllocationProp prop = {};
    unsigned long long access;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    CHECKCU(cuMemCreate(&handle, bytes, &prop, 0));
    CHECKCU(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    CHECKCU(cuMemMap(p, bytes, 0, handle, 0));
    CUmemAccessDesc both[2] = {};
    for (int i = 0; i < 2; i++)
        both[i] = {{CU_MEM_LOCATION_TYPE_DEVICE, i}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECKCU(cuMemSetAccess(p, bytes, both, 2));
    for (int i = 0; i < 2; i++) {
        CHECKCU(cuMemGetAccess(&access, &both[i].location, p));
        CHECK(cudaSetDevice(i));
        fill<<<64, 256>>>((int *)p, 50 + i);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(a, (int *)p, 64 * 256 * 4, cudaMemcpyDeviceToDevice));
        CHECK(cudaDeviceSynchronize());
        printf("GPU %d has access %d; ", i, int(access));
        is(a, 64 * 256, 50 + i, "mapped");
    }
    CHECKCU(cuMemUnmap(p, bytes));
    CHECKCU(cuMemAddressFree(p, bytes));
    CHECKCU(cuMemRelease(handle));
}

// A pool is reached by whom it was given, without access of the contexts.
static void pools(int *b) {
    cudaMemPool_t pool;
    cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
    cudaMemAccessFlags flags;
    int *p;
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolGetAccess(&flags, pool, &desc.location));
    printf("access to the pool: %d", int(flags));
    CHECK(cudaMemPoolSetAccess(pool, &desc, 1));
    CHECK(cudaMemPoolGetAccess(&flags, pool, &desc.location));
    printf(", then %d", int(flags));
    CHECK(cudaMallocAsync(&p, N * sizeof(int), 0));
    fill<<<N / 256, 256>>>(p, 70);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(1));
    add<<<N / 256, 256>>>(b, p, 5);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    CHECK(cudaFreeAsync(p, 0));
    CHECK(cudaDeviceSynchronize());
    desc.flags = cudaMemAccessFlagsProtNone;
    CHECK(cudaMemPoolSetAccess(pool, &desc, 1));
    CHECK(cudaMemPoolGetAccess(&flags, pool, &desc.location));
    printf(", then %d\n", int(flags));
    is(b, N, 75, "read from the other GPU's pool");
}

int main() {
    CUcontext c[2];
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    REQUIRE(devices >= 2);
    int *a = on(0, N * sizeof(int)), *b = on(1, N * sizeof(int));
    for (int i = 0; i < 2; i++) {
        cudaPointerAttributes at;
        CHECK(cudaPointerGetAttributes(&at, i ? b : a));
        printf("memory of GPU %d is on GPU %d\n", i, at.device);
        CHECKCU(cuDevicePrimaryCtxRetain(&c[i], i));
    }
    CHECK(cudaSetDevice(0));
    errors(c);
    fillOther(b);
    copies(a, b, "without access");
    pools(b);
    kernels(a, b);
    copies(a, b, "with access");
    order(b);
    mapped(a);
    // From and to the host, whichever GPU is the current one.
    static int host[N];
    CHECK(cudaSetDevice(0));
    for (int i = 0; i < N; i++) host[i] = 60 + i;
    CHECK(cudaMemcpy(b, host, sizeof(host), cudaMemcpyHostToDevice));
    is(b, N, 60, "from the host to the GPU that isn't current");
    CHECK(cudaDeviceDisablePeerAccess(1));
    REPORT(cudaDeviceDisablePeerAccess(1));
    REPORT(cudaGetLastError());
    copies(a, b, "after that");
}
