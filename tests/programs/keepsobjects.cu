// SPDX-License-Identifier: Apache-2.0
// Objects of many kinds that are used round after round: as many as the argument says, 0 for no
// end. Variables and constants of code, a table of virtual functions, a pointer to a function,
// managed and registered memory, streams of two priorities, times between events, a pool with a
// threshold, limits, attributes of streams and kernels, and a thread with a default stream of its
// own. All are compared each round.
#include "check.h"
#include <cuda.h>
#include <cstdint>
#include <sys/mman.h>
#include <thread>
#include <vector>

const int words = 64;

__device__ uint32_t variable[words];
__constant__ uint32_t factor;
__device__ uint32_t add(uint32_t a, uint32_t b) { return a + b; }
typedef uint32_t (*Function)(uint32_t, uint32_t);
__device__ Function function = add;

struct Shape {
    __device__ virtual uint32_t area(uint32_t n) const = 0;
};
struct Square : Shape {
    __device__ uint32_t area(uint32_t n) const override { return n * n; }
};

__global__ void make(Shape **at) { *at = new (at + 1) Square; }

__global__ void step(uint32_t *p, uint32_t round) {
    p[threadIdx.x] = p[threadIdx.x] * factor + round + threadIdx.x;
}

__global__ void stepVariable(uint32_t round) {
    variable[threadIdx.x] = variable[threadIdx.x] * factor + round + threadIdx.x;
}

__global__ void call(uint32_t *out, Shape **shape, Function *f, uint32_t n) {
    out[0] = (*shape)->area(n);
    out[1] = (*f)(n, 7);
}

struct Oracle {
    uint32_t word[words];
    void step(uint32_t round) {
        for (int k = 0; k < words; k++) word[k] = word[k] * 1664525u + round + k;
    }
};

// thread computes in its own default stream, and says how many rounds it has seen right.
static void thread(int rounds, int *right) {
    uint32_t *p, has[words];
    Oracle want = {};
    CHECK(cudaMalloc(&p, sizeof has));
    CHECK(cudaMemsetAsync(p, 0, sizeof has, cudaStreamPerThread));
    for (int i = 0; i < rounds || !rounds; i++) {
        step<<<1, words, 0, cudaStreamPerThread>>>(p, i);
        want.step(i);
        CHECK(cudaMemcpyAsync(has, p, sizeof has, cudaMemcpyDeviceToHost, cudaStreamPerThread));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        for (int k = 0; k < words; k++) REQUIRE(has[k] == want.word[k]);
        *right = i + 1;
    }
}

static void compare(const uint32_t *has, const Oracle &want) {
    for (int k = 0; k < words; k++) REQUIRE(has[k] == want.word[k]);
}

// Limits are a context's limits, and what it prefers of its cache.
struct Limits {
    static const int kinds = 6;
    size_t has[kinds];
    cudaFuncCache cache;

    static Limits now() {
        const cudaLimit kind[kinds] = {
            cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize,
            cudaLimitPersistingL2CacheSize, cudaLimitMaxL2FetchGranularity,
            cudaLimitDevRuntimePendingLaunchCount};
        Limits l;
        for (int i = 0; i < kinds; i++) CHECK(cudaDeviceGetLimit(&l.has[i], kind[i]));
        CHECK(cudaDeviceGetCacheConfig(&l.cache));
        return l;
    }
    bool operator==(const Limits &other) const {
        for (int i = 0; i < kinds; i++)
            if (has[i] != other.has[i]) return false;
        return cache == other.cache;
    }
};

// Attributes are what can be set of a stream and of a kernel, and read back.
struct Attributes {
    cudaAccessPolicyWindow window;
    cudaSynchronizationPolicy policy;
    int priority, bytes, carveout;

    static Attributes of(cudaStream_t s) {
        Attributes a;
        cudaStreamAttrValue v = {};
        CHECK(cudaStreamGetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v));
        a.window = v.accessPolicyWindow;
        CHECK(cudaStreamGetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
        a.policy = v.syncPolicy;
        CHECK(cudaStreamGetPriority(s, &a.priority));
        cudaFuncAttributes f;
        CHECK(cudaFuncGetAttributes(&f, step));
        a.bytes = f.maxDynamicSharedSizeBytes;
        a.carveout = f.preferredShmemCarveout;
        return a;
    }
    bool operator==(const Attributes &other) const {
        const cudaAccessPolicyWindow &w = window, &v = other.window;
        return w.base_ptr == v.base_ptr && w.num_bytes == v.num_bytes && w.hitRatio == v.hitRatio &&
               w.hitProp == v.hitProp && w.missProp == v.missProp && policy == other.policy &&
               priority == other.priority && bytes == other.bytes && carveout == other.carveout;
    }
};

// set sets them, with a window of as much memory as there may be.
static void set(cudaStream_t s, void *memory, size_t bytes) {
    int most;
    CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxAccessPolicyWindowSize, 0));
    cudaStreamAttrValue v = {};
    v.accessPolicyWindow.base_ptr = memory;
    v.accessPolicyWindow.num_bytes = bytes < size_t(most) ? bytes : most;
    v.accessPolicyWindow.hitRatio = 0.5;
    v.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    v.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    CHECK(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v));
    v = {};
    v.syncPolicy = cudaSyncPolicyYield;
    CHECK(cudaStreamSetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
    CHECK(cudaFuncSetAttribute(step, cudaFuncAttributeMaxDynamicSharedMemorySize, 20000));
    CHECK(cudaFuncSetAttribute(step, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    const size_t bytes = words * sizeof(uint32_t), stack = 4096, threshold = 3 << 20;
    int right = 0;

    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, stack));
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 3 << 20));
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 24 << 20));
    CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20));
    CHECK(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 32));
    CHECK(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 3000));
    CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    const Limits limits = Limits::now();
    REQUIRE(limits.has[0] == stack);
    const uint32_t f = 1664525u;
    CHECK(cudaMemcpyToSymbol(factor, &f, sizeof f));
    std::thread other(thread, rounds, &right);

    uint32_t *managed, *pooled, *called, has[words];
    CHECK(cudaMallocManaged(&managed, bytes));
    memset(managed, 0, bytes);
    auto *registered = static_cast<uint32_t *>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(cudaHostRegister(registered, 1 << 20, cudaHostRegisterDefault));
    uint32_t *seen;
    CHECK(cudaHostGetDevicePointer(&seen, registered, 0));

    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t low, high;
    CHECK(cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, least));
    CHECK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin, low));
    CHECK(cudaEventRecord(end, low));
    CHECK(cudaStreamSynchronize(low));
    float before, now;
    CHECK(cudaEventElapsedTime(&before, begin, end));

    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &props));
    uint64_t value = threshold;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    CHECK(cudaMallocFromPoolAsync(&pooled, bytes, pool, high));
    CHECK(cudaMemsetAsync(pooled, 0, bytes, high));

    set(low, managed, bytes);
    const Attributes lows = Attributes::of(low), highs = Attributes::of(high);
    REQUIRE(lows.policy == cudaSyncPolicyYield && lows.window.hitRatio == 0.5 &&
            lows.bytes == 20000 && lows.carveout == 50 && highs.priority == greatest);

    Shape **shape;
    Function *pointer;
    CHECK(cudaMalloc(&called, 2 * sizeof *called));
    CHECK(cudaMalloc(&shape, 64));
    CHECK(cudaGetSymbolAddress(reinterpret_cast<void **>(&pointer), function));
    make<<<1, 1>>>(shape);
    CHECK(cudaDeviceSynchronize());

    Oracle want = {};
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        want.step(i);
        stepVariable<<<1, words, 0, low>>>(i);
        step<<<1, words, 0, high>>>(managed, i);
        step<<<1, words, 0, high>>>(seen, i);
        step<<<1, words, 0, high>>>(pooled, i);
        call<<<1, 1, 0, low>>>(called, shape, pointer, i);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(low));
        CHECK(cudaStreamSynchronize(high));
        CHECK(cudaMemcpyFromSymbol(has, variable, bytes));
        compare(has, want);
        compare(managed, want);
        compare(registered, want);
        CHECK(cudaMemcpy(has, pooled, bytes, cudaMemcpyDeviceToHost));
        compare(has, want);
        CHECK(cudaMemcpy(has, called, 2 * sizeof *called, cudaMemcpyDeviceToHost));
        REQUIRE(has[0] == uint32_t(i) * i && has[1] == uint32_t(i) + 7);

        CHECK(cudaEventElapsedTime(&now, begin, end));
        REQUIRE(now == before);
        REQUIRE(Attributes::of(low) == lows && Attributes::of(high) == highs);
        REQUIRE(Limits::now() == limits);
        CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
        REQUIRE(value == threshold);
        REQUIRE(cudaMemcpy(has, nullptr, bytes, cudaMemcpyDeviceToHost) != cudaSuccess);
        REQUIRE(cudaGetLastError() != cudaSuccess && cudaGetLastError() == cudaSuccess);
    }
    other.join();
    REQUIRE(right == rounds);
    printf("%d rounds of variables, functions, memory, streams, events, a pool and a limit\n", i);
}
