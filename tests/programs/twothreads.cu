// SPDX-License-Identifier: Apache-2.0
// Two threads, a GPU each, make random calls at the same time: in each round each of them makes its
// own sequence, and somewhere in it launches a kernel that goes on only when the other's runs. What
// a thread waits for behind its kernel must not hold up the other, which may still be loading code,
// allocating, copying or waiting for its own work.
//
//	twothreads [ROUNDS [FIRST]]    FIRST: the number of the first round
#include "driver.h"
#include <atomic>
#include <cstdlib>
#include <pthread.h>
#include <vector>

static const char ptx[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry addOne(.param .u64 p, .param .u32 n)
{
    .reg .pred %out;
    .reg .b32 %i, %n, %t, %b, %d, %x;
    .reg .b64 %p, %off;
    mov.u32 %t, %tid.x;
    mov.u32 %b, %ctaid.x;
    mov.u32 %d, %ntid.x;
    mad.lo.u32 %i, %b, %d, %t;
    ld.param.u32 %n, [n];
    setp.ge.u32 %out, %i, %n;
    @%out bra done;
    ld.param.u64 %p, [p];
    cvta.to.global.u64 %p, %p;
    mul.wide.u32 %off, %i, 4;
    add.u64 %p, %p, %off;
    ld.global.u32 %x, [%p];
    add.u32 %x, %x, 1;
    st.global.u32 [%p], %x;
done:
    ret;
}
)";

// Says in pinned memory that this kernel runs, and waits until the other says so.
static __global__ void meet(volatile unsigned *mine, volatile unsigned *others, unsigned round) {
    *mine = round;
    __threadfence_system();
    while (*others < round) {}
}

static const size_t large = 8 << 20;
static const unsigned words = 1 << 12, steps = 12;

static pthread_barrier_t barrier;
static unsigned rounds = 20, first = 1;

struct Side {
    int gpu;
    CUcontext context;
    CUstream stream, second;
    CUevent event;        // the other may wait for it in the round after it was recorded
    CUdeviceptr counters; // `words` numbers, each of which every launch adds one to
    CUdeviceptr buffer;   // of `large` bytes
    CUdeviceptr peer;     // what the other copies to
    unsigned *flag;       // of meet
    CUmodule module;
    CUfunction addOne;
    unsigned launches;
    std::atomic<unsigned> called;
    std::vector<unsigned char> pageable, back;
    unsigned char *pinned;
    Random random;
};

static Side sides[2];

static void CUDA_CB calls(void *p) { ((std::atomic<unsigned> *)p)->fetch_add(1); }

static void load(Side &s) {
    CHECKCU(cuModuleLoadData(&s.module, ptx));
    CHECKCU(cuModuleGetFunction(&s.addOne, s.module, "addOne"));
}

static void launch(Side &s, unsigned n) {
    unsigned count = words;
    void *list[] = {&s.counters, &count};
    for (; n; n--, s.launches++)
        CHECKCU(cuLaunchKernel(s.addOne, words / 64, 1, 1, 64, 1, 1, 0, s.stream, list, nullptr));
}

static void open(Side &s, int gpu) {
    s.gpu = gpu;
    s.random.state = 77 + gpu;
    CHECKCU(cuDevicePrimaryCtxRetain(&s.context, gpu));
    CHECKCU(cuCtxSetCurrent(s.context));
    CHECKCU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuStreamCreate(&s.second, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuEventCreate(&s.event, CU_EVENT_DISABLE_TIMING));
    CHECKCU(cuEventRecord(s.event, s.stream));
    CHECKCU(cuMemAlloc(&s.counters, words * 4));
    CHECKCU(cuMemsetD8(s.counters, 0, words * 4));
    CHECKCU(cuMemAlloc(&s.buffer, large));
    CHECKCU(cuMemAlloc(&s.peer, large));
    CHECKCU(cuMemHostAlloc((void **)&s.pinned, large, CU_MEMHOSTALLOC_PORTABLE));
    CHECKCU(cuMemHostAlloc((void **)&s.flag, 4, CU_MEMHOSTALLOC_PORTABLE));
    *s.flag = 0;
    s.pageable.resize(large);
    s.back.resize(large);
    load(s);
    launch(s, 1);
    CHECKCU(cuCtxSynchronize());
    // Loading a kernel may wait for the device: this one is loaded before anything waits.
    unsigned *flag = s.flag;
    CHECK(cudaSetDevice(gpu));
    meet<<<1, 1, 0, s.stream>>>(flag, flag, 0);
    CHECK(cudaGetLastError());
    CHECKCU(cuCtxSynchronize());
}

// bytes is a size from one byte to the whole buffer, small ones as often as large ones.
static size_t bytes(Side &s) {
    return 1 + s.random.below(1u << s.random.below(24)) % large;
}

// there and back, by memory of the program's own.
static void pageable(Side &s) {
    const size_t n = bytes(s);
    memset(s.pageable.data(), int(s.random.next() & 255), n);
    s.pageable[n - 1] = 3;
    CHECKCU(cuMemcpyHtoDAsync(s.buffer, s.pageable.data(), n, s.stream));
    CHECKCU(cuMemcpyDtoHAsync(s.back.data(), s.buffer, n, s.stream));
    CHECKCU(cuStreamSynchronize(s.stream));
    REQUIRE(!memcmp(s.back.data(), s.pageable.data(), n));
}

static void pinned(Side &s) {
    const size_t n = bytes(s);
    const int value = int(s.random.next() & 255);
    CHECKCU(cuMemsetD8Async(s.buffer, (unsigned char)value, n, s.second));
    CHECKCU(cuMemcpyDtoHAsync(s.pinned, s.buffer, n, s.second));
    CHECKCU(cuStreamSynchronize(s.second));
    REQUIRE(allBytes(s.pinned, value, n));
}

static void allocate(Side &s) {
    CUdeviceptr p;
    const size_t n = bytes(s);
    CHECKCU(cuMemAlloc(&p, n));
    CHECKCU(cuMemsetD8Async(p, 9, n, s.second));
    CHECKCU(cuMemFree(p));
}

static void pool(Side &s) {
    CUdeviceptr p;
    const size_t n = bytes(s);
    CHECKCU(cuMemAllocAsync(&p, n, s.second));
    CHECKCU(cuMemsetD8Async(p, 5, n, s.second));
    CHECKCU(cuMemcpyDtoHAsync(s.back.data(), p, n, s.second));
    CHECKCU(cuMemFreeAsync(p, s.second));
    CHECKCU(cuStreamSynchronize(s.second));
    REQUIRE(allBytes(s.back.data(), 5, n));
}

static void toPeer(Side &s) {
    Side &other = sides[1 - s.gpu];
    const size_t n = bytes(s);
    CHECKCU(cuMemcpyPeerAsync(other.peer, other.context, s.buffer, s.context, n, s.stream));
}

static void reload(Side &s) {
    CHECKCU(cuStreamSynchronize(s.stream));
    CHECKCU(cuModuleUnload(s.module));
    load(s);
}

static void hostMemory(Side &s) {
    void *p;
    CHECKCU(cuMemHostAlloc(&p, bytes(s), 0));
    CHECKCU(cuMemFreeHost(p));
}

static void objects(Side &s) {
    CUstream stream;
    CUevent event;
    CHECKCU(cuStreamCreate(&stream, s.random.below(2)));
    CHECKCU(cuEventCreate(&event, 0));
    CHECKCU(cuEventRecord(event, s.stream));
    CHECKCU(cuStreamWaitEvent(stream, event, 0));
    CHECKCU(cuStreamDestroy(stream));
    CHECKCU(cuEventDestroy(event));
}

// step makes a call or a few. Pinned memory is freed only in rounds without waiting kernels: it is
// all GPUs', so that this may wait for the work of all.
static void step(Side &s, bool waits) {
    size_t free, total;
    switch (s.random.below(waits ? 13 : 14)) {
    case 0: return pageable(s);
    case 1: return pinned(s);
    case 2: return allocate(s);
    case 3: return pool(s);
    case 4: return toPeer(s);
    case 5: return reload(s);
    case 6: return objects(s);
    case 7: return launch(s, 1 + s.random.below(40));
    case 8: return CHECKCU(cuStreamSynchronize(s.random.below(2) ? s.stream : s.second));
    case 9: return CHECKCU(cuCtxSynchronize());
    case 10: return CHECKCU(cuMemGetInfo(&free, &total));
    case 11: return CHECKCU(cuLaunchHostFunc(s.stream, calls, &s.called));
    case 12: return CHECKCU(cuEventSynchronize(s.event));
    case 13: return hostMemory(s);
    }
}

static void check(Side &s) {
    std::vector<unsigned> got(words);
    CHECKCU(cuMemcpyDtoHAsync(got.data(), s.counters, words * 4, s.stream));
    CHECKCU(cuStreamSynchronize(s.stream));
    for (unsigned x : got) REQUIRE(x == s.launches);
}

static void *run(void *arg) {
    Side &s = *(Side *)arg, &other = sides[1 - s.gpu];
    CHECKCU(cuCtxSetCurrent(s.context));
    CHECK(cudaSetDevice(s.gpu));
    for (unsigned round = first; round < first + rounds; round++) {
        s.random.state = 1000003ull * round + (unsigned)s.gpu;
        const unsigned when = s.random.below(steps);
        const bool waits = round % 4 != 0;
        pthread_barrier_wait(&barrier);
        if (s.random.below(2)) CHECKCU(cuStreamWaitEvent(s.stream, other.event, 0));
        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < steps; i++) {
            if (waits && i == when) {
                meet<<<1, 1, 0, s.stream>>>(s.flag, other.flag, round);
                CHECK(cudaGetLastError());
            }
            step(s, waits);
        }
        check(s);
        CHECKCU(cuEventRecord(s.event, s.stream));
    }
    CHECKCU(cuCtxSynchronize());
    return nullptr;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    if (argc > 1) rounds = (unsigned)atoi(argv[1]);
    if (argc > 2) first = (unsigned)atoi(argv[2]);
    CHECKCU(cuInit(0));
    for (int i = 0; i < 2; i++) open(sides[i], i);
    REQUIRE(!pthread_barrier_init(&barrier, nullptr, 2));
    for (int i = 0; i < 2; i++) REQUIRE(!pthread_create(&threads[i], nullptr, run, &sides[i]));
    for (int i = 0; i < 2; i++) REQUIRE(!pthread_join(threads[i], nullptr));
    printf("%u rounds: nobody waited for ever\n", rounds);
    return 0;
}
