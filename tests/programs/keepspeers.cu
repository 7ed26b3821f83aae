// SPDX-License-Identifier: Apache-2.0
// Two GPUs of one process that reach each other's memory, round after round: as many as the
// argument says, 0 for no end. Each one's context has access to the other, that of GPU 1 only now
// and then. Both have memory that is mapped by hand on GPU 1, and GPU 1 has a pool of GPU 0's,
// taken back and given again. A graph of GPU 0 changes what is on GPU 1. All is compared.
#include "driver.h"

static const unsigned words = 256;

static __global__ void step(uint32_t *to, const uint32_t *from, uint32_t add) {
    to[threadIdx.x] = to[threadIdx.x] * 1664525u + from[threadIdx.x] + add;
}

// Memory is on a GPU, with what it is to have.
struct Memory {
    uint32_t *at;
    uint32_t want[words] = {};

    // take is a step that a GPU takes, which may have to reach both.
    void take(int gpu, const Memory &from, uint32_t add) {
        CHECK(cudaSetDevice(gpu));
        step<<<1, words>>>(at, from.at, add);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        took(from, add);
    }
    void took(const Memory &from, uint32_t add) {
        for (unsigned k = 0; k < words; k++) want[k] = want[k] * 1664525u + from.want[k] + add;
    }
    void compare() const {
        uint32_t has[words];
        CHECK(cudaMemcpy(has, at, sizeof has, cudaMemcpyDefault));
        REQUIRE(memcmp(has, want, sizeof want) == 0);
    }
};

static Memory plain(int gpu) {
    Memory m;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMalloc(&m.at, sizeof m.want));
    CHECK(cudaMemset(m.at, 0, sizeof m.want));
    CHECK(cudaDeviceSynchronize());
    return m;
}

// mapped is on GPU 1, and both have access to it.
static Memory mapped() {
    Memory m;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    CUmemAllocationProp prop = {};
    size_t bytes;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    CHECKCU(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECKCU(cuMemCreate(&handle, bytes, &prop, 0));
    CHECKCU(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    CHECKCU(cuMemMap(p, bytes, 0, handle, 0));
    CHECKCU(cuMemRelease(handle));
    CUmemAccessDesc both[2] = {};
    for (int i = 0; i < 2; i++)
        both[i] = {{CU_MEM_LOCATION_TYPE_DEVICE, i}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECKCU(cuMemSetAccess(p, bytes, both, 2));
    m.at = (uint32_t *)p;
    CHECK(cudaSetDevice(1));
    CHECK(cudaMemset(m.at, 0, sizeof m.want));
    CHECK(cudaDeviceSynchronize());
    return m;
}

static void give(cudaMemPool_t pool, cudaMemAccessFlags flags) {
    cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, 1}, flags};
    cudaMemAccessFlags now;
    CHECK(cudaMemPoolSetAccess(pool, &desc, 1));
    CHECK(cudaMemPoolGetAccess(&now, pool, &desc.location));
    REQUIRE(now == flags);
}

// pooled is of GPU 0's pool.
static Memory pooled(cudaMemPool_t pool) {
    Memory m;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocFromPoolAsync(&m.at, sizeof m.want, pool, 0));
    CHECK(cudaMemsetAsync(m.at, 0, sizeof m.want, 0));
    CHECK(cudaDeviceSynchronize());
    return m;
}

// stepOf is a graph of GPU 0 with one step.
static cudaGraphExec_t stepOf(uint32_t *to, const uint32_t *from, uint32_t add) {
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    step<<<1, words, 0, s>>>(to, from, add);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(s));
    return exec;
}

// enable gives a GPU access to the other, which it doesn't have.
static void enable(int gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceEnablePeerAccess(1 - gpu, 0));
    REQUIRE(cudaDeviceEnablePeerAccess(1 - gpu, 0) == cudaErrorPeerAccessAlreadyEnabled);
    REQUIRE(cudaGetLastError() == cudaErrorPeerAccessAlreadyEnabled);
}

// disable takes it back.
static void disable(int gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceDisablePeerAccess(1 - gpu));
    REQUIRE(cudaDeviceDisablePeerAccess(1 - gpu) == cudaErrorPeerAccessNotEnabled);
    REQUIRE(cudaGetLastError() == cudaErrorPeerAccessNotEnabled);
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    REQUIRE(devices >= 2);
    cudaMemPoolProps props = {};
    cudaMemPool_t pool;
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    CHECK(cudaMemPoolCreate(&pool, &props));
    Memory first = plain(0), second = plain(1), both = mapped(), ofPool = pooled(pool);
    enable(0);
    give(pool, cudaMemAccessFlagsProtReadWrite);
    cudaGraphExec_t exec = stepOf(second.at, first.at, 77);

    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        first.take(0, second, i);
        second.take(0, first, i + 1);
        both.take(i % 2, both, i);
        ofPool.take(1, second, i);
        CHECK(cudaSetDevice(0));
        CHECK(cudaGraphLaunch(exec, 0));
        CHECK(cudaDeviceSynchronize());
        second.took(first, 77);
        if (i % 8 == 3) enable(1);
        if (i % 8 >= 3) first.take(1, second, i);
        if (i % 8 == 7) disable(1);
        if (i % 16 == 9) {
            give(pool, cudaMemAccessFlagsProtNone);
            give(pool, cudaMemAccessFlagsProtReadWrite);
        }
        for (const Memory *m : {&first, &second, &both, &ofPool}) m->compare();
    }
    printf("%d rounds of two GPUs that reach each other's memory\n", i);
    return 0;
}
