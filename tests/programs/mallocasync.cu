// SPDX-License-Identifier: Apache-2.0
// Allocates in stream order, from the default pool and from one of its own, and looks at what pools
// tell.
#include "driver.h"
#include <vector>

static __global__ void fill(unsigned *p, unsigned n, unsigned value) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = value + i;
}

static __global__ void add(unsigned *to, const unsigned *from, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] += from[i];
}

// chain allocates, uses and frees in one stream without waiting in between.
static void chain() {
    const unsigned n = 100000, rounds = 20;
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    unsigned *sum, *part;
    CHECK(cudaMallocAsync(&sum, n * 4, s));
    CHECK(cudaMemsetAsync(sum, 0, n * 4, s));
    for (unsigned r = 0; r < rounds; r++) {
        CHECK(cudaMallocAsync(&part, n * 4, s));
        fill<<<(n + 255) / 256, 256, 0, s>>>(part, n, r);
        add<<<(n + 255) / 256, 256, 0, s>>>(sum, part, n);
        CHECK(cudaFreeAsync(part, s));
    }
    std::vector<unsigned> got(n);
    CHECK(cudaMemcpyAsync(got.data(), sum, n * 4, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    for (unsigned i = 0; i < n; i++) REQUIRE(got[i] == rounds * i + rounds * (rounds - 1) / 2);
    CHECK(cudaFreeAsync(sum, s));
    CHECK(cudaStreamDestroy(s));
    printf("chain: %u rounds right\n", rounds);
}

// streams uses memory in one stream and frees it in another, in order by events.
static void streams() {
    const unsigned n = 4096;
    cudaStream_t a, b;
    cudaEvent_t e;
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreate(&b));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    std::vector<unsigned> got(n);
    for (unsigned r = 0; r < 10; r++) {
        unsigned *p;
        CHECK(cudaMallocAsync(&p, n * 4, a));
        fill<<<n / 256, 256, 0, a>>>(p, n, r * 7);
        CHECK(cudaEventRecord(e, a));
        CHECK(cudaStreamWaitEvent(b, e, 0));
        CHECK(cudaMemcpyAsync(got.data(), p, n * 4, cudaMemcpyDeviceToHost, b));
        CHECK(cudaFreeAsync(p, b));
        CHECK(cudaStreamSynchronize(b));
        for (unsigned i = 0; i < n; i++) REQUIRE(got[i] == r * 7 + i);
    }
    CHECK(cudaEventDestroy(e));
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
    puts("streams: right");
}

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which) {
    uint64_t v = 0;
    CHECKCU(cuMemPoolGetAttribute(pool, which, &v));
    return v;
}

// own makes a pool, keeps memory in it and gives it back.
static void own(CUdevice device) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    CUmemoryPool pool, first, now;
    CHECKCU(cuMemPoolCreate(&pool, &props));
    int reuse = 0;
    CHECKCU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &reuse));
    printf("own: threshold %llu, reuse %d\n",
           (unsigned long long)attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), reuse);
    uint64_t all = ~0ull, zero = 0;
    CHECKCU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CUstream s;
    CHECKCU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CUdeviceptr p, q;
    const size_t size = 6 << 20;
    CHECKCU(cuMemAllocFromPoolAsync(&p, size, pool, s));
    CUmemoryPool of;
    CHECKCU(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    REQUIRE(of == pool);
    CHECKCU(cuMemFreeAsync(p, s));
    CHECKCU(cuMemAllocFromPoolAsync(&q, size, pool, s));
    printf("own: freed memory %s in its stream\n", p == q ? "is used again" : "is not used again");
    REQUIRE(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= size);
    CHECKCU(cuMemFreeAsync(q, s));
    CHECKCU(cuStreamSynchronize(s));
    REQUIRE(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    REQUIRE(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= size);
    REQUIRE(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= size);
    CHECKCU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    REQUIRE(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    CHECKCU(cuMemPoolTrimTo(pool, 0));
    REQUIRE(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);

    CHECKCU(cuDeviceGetDefaultMemPool(&first, device));
    CHECKCU(cuDeviceSetMemPool(device, pool));
    CHECKCU(cuDeviceGetMemPool(&now, device));
    REQUIRE(now == pool && first != pool);
    CHECKCU(cuMemAllocAsync(&p, 1000, s));
    REQUIRE(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 1000);
    CHECKCU(cuMemFree(p));
    CHECKCU(cuMemPoolDestroy(pool));
    CHECKCU(cuDeviceGetMemPool(&now, device));
    REQUIRE(now == first);
    CHECKCU(cuStreamDestroy(s));
}

int main() {
    CUdevice device = openDevice();
    int supported = 0;
    CHECKCU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device));
    printf("pools supported: %d\n", supported);
    chain();
    streams();
    own(device);
    void *p;
    REPORT(cudaMallocAsync(&p, size_t(1) << 45, cudaStream_t(0)));
    cudaGetLastError();
    CHECK(cudaMalloc(&p, 5000));
    CHECK(cudaFreeAsync(p, 0));
    CHECK(cudaDeviceSynchronize());
    REPORTCU(cuMemFreeAsync(0x1234, 0));
    return 0;
}
