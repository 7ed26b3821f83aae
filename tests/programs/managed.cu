// SPDX-License-Identifier: Apache-2.0
// Managed memory: touched by host and device in turn and at the same time, copied and filled in
// every way, asked about, advised about, and freed while work uses it. Every byte is checked, with
// guards around what is written.
#include "driver.h"
#include <cstring>
#include <ctime>
#include <vector>

static Random rng = {2024};

static void fill(unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)rng.next();
}

__global__ void change(unsigned char *p, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        p[i] = (unsigned char)(p[i] * 7 + i);
}

static void inTurn() {
    for (size_t n : {size_t(1), size_t(4097), size_t(1000003)}) {
        unsigned char *p;
        std::vector<unsigned char> want(n);
        CHECK(cudaMallocManaged(&p, n));
        fill(p, n);
        memcpy(want.data(), p, n);
        for (int turn = 0; turn < 3; turn++) {
            change<<<8, 128>>>(p, n);
            CHECK(cudaDeviceSynchronize());
            for (size_t i = 0; i < n; i++) want[i] = (unsigned char)(want[i] * 7 + i);
            REQUIRE(!memcmp(p, want.data(), n));
            size_t at = rng.below(uint32_t(n));
            p[at] = want[at] = (unsigned char)rng.next();
        }
        CHECK(cudaFree(p));
    }
    printf("in turn: as expected\n");
}

struct Node {
    Node *next;
    int value;
};

__global__ void sumList(const Node *first, int *sum) {
    for (const Node *n = first; n; n = n->next) atomicAdd(sum, n->value * int(threadIdx.x + 1));
}

static void pointersInIt() {
    int *sum, want = 0;
    Node *first = nullptr;
    CHECK(cudaMallocManaged(&sum, sizeof *sum, cudaMemAttachHost));
    *sum = 0;
    for (int i = 0; i < 20; i++) {
        Node *n;
        CHECK(cudaMallocManaged(&n, sizeof *n));
        n->next = first;
        n->value = int(rng.below(1000));
        want += n->value * 33 * 32 / 2;
        first = n;
    }
    sumList<<<1, 32>>>(first, sum);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(*sum == want);
    while (first) {
        Node *next = first->next;
        CHECK(cudaFree(first));
        first = next;
    }
    CHECK(cudaFree(sum));
    printf("a list: followed by the device\n");
}

// Rounds are numbered; the host has the odd turns of `turn`, the device the even ones.
__global__ void pingPong(volatile int *turn, volatile int *data, int n, int rounds) {
    for (int r = 0; r < rounds; r++) {
        while (*turn != 2 * r + 1) {}
        __threadfence_system();
        for (int i = 0; i < n; i++) data[i] = data[i] * 3 + r;
        __threadfence_system();
        *turn = 2 * r + 2;
    }
}

static void atTheSameTime() {
    int possible;
    CHECK(cudaDeviceGetAttribute(&possible, cudaDevAttrConcurrentManagedAccess, 0));
    const int n = 50, rounds = 10;
    int *turn, *data, want[n];
    CHECK(cudaMallocManaged(&turn, sizeof *turn));
    CHECK(cudaMallocManaged(&data, sizeof want));
    *turn = 0;
    for (int i = 0; i < n; i++) want[i] = data[i] = int(rng.below(1000));
    for (int r = 0; r < (possible ? 1 : rounds); r++) {
        if (!possible) __atomic_store_n(turn, 1, __ATOMIC_RELEASE);
        pingPong<<<1, 1>>>(turn, data, n, possible ? rounds : 1);
        if (!possible) CHECK(cudaDeviceSynchronize());
    }
    for (int r = 0; possible && r < rounds; r++) {
        for (int i = 0; i < n; i++) want[i] = data[i] += i;
        __atomic_store_n(turn, 2 * r + 1, __ATOMIC_RELEASE);
        timespec pause = {0, 50000};
        while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != 2 * r + 2) nanosleep(&pause, nullptr);
        for (int i = 0; i < n; i++) REQUIRE(data[i] == want[i] * 3 + r);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(turn));
    CHECK(cudaFree(data));
    printf("at the same time: as expected\n");
}

// One piece of memory of each kind, with guards of 64 bytes around it.
struct Piece {
    enum Kind { pageable, pinned, device, managed } kind;
    unsigned char *whole, *p;
    size_t n;

    Piece(Kind k, size_t size) : kind(k), n(size) {
        switch (k) {
        case pageable: whole = (unsigned char *)malloc(n + 128); break;
        case pinned: CHECK(cudaMallocHost(&whole, n + 128)); break;
        case device: CHECK(cudaMalloc(&whole, n + 128)); break;
        case managed: CHECK(cudaMallocManaged(&whole, n + 128)); break;
        }
        p = whole + 64;
    }
    ~Piece() {
        switch (kind) {
        case pageable: free(whole); break;
        case pinned: CHECK(cudaFreeHost(whole)); break;
        default: CHECK(cudaFree(whole));
        }
    }
    void set(const unsigned char *bytes) {
        if (kind == device)
            CHECK(cudaMemcpy(whole, bytes, n + 128, cudaMemcpyHostToDevice));
        else
            memcpy(whole, bytes, n + 128);
    }
    std::vector<unsigned char> get() const {
        std::vector<unsigned char> bytes(n + 128);
        if (kind == device)
            CHECK(cudaMemcpy(bytes.data(), whole, n + 128, cudaMemcpyDeviceToHost));
        else
            memcpy(bytes.data(), whole, n + 128);
        return bytes;
    }
};

static void copyOnce(const Piece &to, const Piece &from, cudaMemcpyKind kind, cudaStream_t stream) {
    if (stream) {
        CHECK(cudaMemcpyAsync(to.p, from.p, to.n, kind, stream));
        CHECK(cudaStreamSynchronize(stream));
    } else {
        CHECK(cudaMemcpy(to.p, from.p, to.n, kind));
        CHECK(cudaDeviceSynchronize());
    }
}

static void copies() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (size_t n : {size_t(3), size_t(5000), size_t(300001)}) {
        std::vector<unsigned char> a(n + 128), b(n + 128);
        for (int other = Piece::pageable; other <= Piece::managed; other++) {
            for (int way = 0; way < 8; way++) {
                bool in = way & 1,
                     host = other < Piece::device || (other == Piece::managed && way & 4);
                Piece with(Piece::Kind(other), n), m(Piece::managed, n);
                const Piece &to = in ? m : with, &from = in ? with : m;
                cudaMemcpyKind kind = way & 2    ? cudaMemcpyDefault
                                      : !host    ? cudaMemcpyDeviceToDevice
                                      : in       ? cudaMemcpyHostToDevice
                                                 : cudaMemcpyDeviceToHost;
                fill(a.data(), a.size());
                fill(b.data(), b.size());
                with.set(a.data());
                m.set(b.data());
                copyOnce(to, from, kind, way & 4 ? stream : nullptr);
                memcpy((in ? b : a).data() + 64, (in ? a : b).data() + 64, n);
                REQUIRE(with.get() == a && m.get() == b);
            }
        }
    }
    CHECK(cudaStreamDestroy(stream));
    printf("copies: as expected\n");
}

static void boxes() {
    const size_t width = 37, height = 11, depth = 3, pitch = 64, n = pitch * height * depth;
    for (int other = Piece::pageable; other <= Piece::managed; other++) {
        for (int way = 0; way < 4; way++) {
            Piece with(Piece::Kind(other), n), m(Piece::managed, n);
            const Piece &to = way & 1 ? m : with, &from = way & 1 ? with : m;
            std::vector<unsigned char> a(n + 128), b(n + 128);
            fill(a.data(), a.size());
            fill(b.data(), b.size());
            with.set(a.data());
            m.set(b.data());
            size_t planes = way & 2 ? depth : 1;
            if (planes == 1) {
                CHECK(cudaMemcpy2D(to.p, pitch, from.p, pitch, width, height, cudaMemcpyDefault));
            } else {
                cudaMemcpy3DParms c = {};
                c.srcPtr = make_cudaPitchedPtr(from.p, pitch, width, height);
                c.dstPtr = make_cudaPitchedPtr(to.p, pitch, width, height);
                c.extent = make_cudaExtent(width, height, depth);
                c.kind = cudaMemcpyDefault;
                CHECK(cudaMemcpy3D(&c));
            }
            CHECK(cudaDeviceSynchronize());
            for (size_t row = 0; row < planes * height; row++)
                memcpy((way & 1 ? b : a).data() + 64 + row * pitch,
                       (way & 1 ? a : b).data() + 64 + row * pitch, width);
            REQUIRE(with.get() == a && m.get() == b);
        }
    }
    printf("boxes: as expected\n");
}

// Fills without a stream are done when they return.
static void fills() {
    const size_t n = 4096;
    Piece m(Piece::managed, n);
    std::vector<unsigned char> want(n + 128);
    CUdeviceptr at = (CUdeviceptr)m.p;
    fill(want.data(), want.size());
    m.set(want.data());
    unsigned char *w = want.data() + 64;
    CHECK(cudaMemset(m.p + 1, 0xa5, 1000));
    memset(w + 1, 0xa5, 1000);
    REQUIRE(m.get() == want);
    CHECKCU(cuMemsetD16(at + 1002, 0x1234, 77));
    for (int i = 0; i < 77; i++) w[1002 + 2 * i] = 0x34, w[1003 + 2 * i] = 0x12;
    REQUIRE(m.get() == want);
    CHECKCU(cuMemsetD32(at + 1200, 0x12345678, 55));
    for (int i = 0; i < 55; i++) memcpy(w + 1200 + 4 * i, "\x78\x56\x34\x12", 4);
    REQUIRE(m.get() == want);
    CHECK(cudaMemset2D(m.p + 1500, 64, 0x77, 13, 9));
    for (int y = 0; y < 9; y++) memset(w + 1500 + 64 * y, 0x77, 13);
    REQUIRE(m.get() == want);
    CHECKCU(cuMemsetD2D16(at + 2200, 64, 0xbeef, 5, 4));
    CHECKCU(cuMemsetD2D32(at + 2600, 64, 0xcafebabe, 6, 4));
    for (int y = 0; y < 4; y++) {
        for (int x = 0; x < 5; x++) memcpy(w + 2200 + 64 * y + 2 * x, "\xef\xbe", 2);
        for (int x = 0; x < 6; x++) memcpy(w + 2600 + 64 * y + 4 * x, "\xbe\xba\xfe\xca", 4);
    }
    REQUIRE(m.get() == want);
    CHECK(cudaMemsetAsync(m.p, 1, n, cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    memset(w, 1, n);
    REQUIRE(m.get() == want);
    printf("fills: as expected\n");
}

static void attributes() {
    char *p;
    const size_t n = 100000;
    CHECK(cudaMallocManaged(&p, n));
    for (char *at : {p, p + 1, p + n - 1}) {
        cudaPointerAttributes a;
        CHECK(cudaPointerGetAttributes(&a, at));
        REQUIRE(a.type == cudaMemoryTypeManaged && a.device == 0 && a.devicePointer == at &&
                a.hostPointer == at);
        unsigned managed = 0;
        CUdeviceptr base;
        size_t size;
        CHECKCU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)at));
        CHECKCU(cuMemGetAddressRange(&base, &size, (CUdeviceptr)at));
        REQUIRE(managed == 1 && base == (CUdeviceptr)p && size >= n);
    }
    CHECK(cudaFree(p));
    int supported;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrManagedMemory, 0));
    printf("attributes: as expected, managed memory %d\n", supported);
    CUdeviceptr none;
    REPORTCU(cuMemAllocManaged(&none, 0, CU_MEM_ATTACH_GLOBAL));
    REPORTCU(cuMemAllocManaged(&none, 100, CU_MEM_ATTACH_SINGLE));
    REPORT(cudaMallocManaged(&p, 100, 0));
    REPORT(cudaGetLastError());
}

#if CUDART_VERSION >= 13000
static cudaMemLocation location(int device) {
    return {device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
            device < 0 ? 0 : device};
}
#define PREFETCH(p, n, device) cudaMemPrefetchAsync((p), (n), location(device), 0, 0)
#define ADVISE(p, n, advice, device) cudaMemAdvise((p), (n), (advice), location(device))
#else
#define PREFETCH(p, n, device) cudaMemPrefetchAsync((p), (n), (device), 0)
#define ADVISE(p, n, advice, device) cudaMemAdvise((p), (n), (advice), (device))
#endif

static int asked(cudaMemRangeAttribute what, const void *p, size_t n) {
    int value = -99;
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, what, p, n));
    return value;
}

// Advice changes no content, and is remembered by the page.
static void advice() {
    const size_t n = 1 << 20, half = n / 2;
    unsigned char *p;
    int list[2];
    CHECK(cudaMallocManaged(&p, n));
    fill(p, n);
    uint64_t content = hash(p, n);
    CHECK(ADVISE(p, half, cudaMemAdviseSetReadMostly, 0));
    REQUIRE(asked(cudaMemRangeAttributeReadMostly, p, half) == 1);
    REQUIRE(asked(cudaMemRangeAttributeReadMostly, p, n) == 0);
    CHECK(ADVISE(p, n, cudaMemAdviseUnsetReadMostly, 0));
    REQUIRE(asked(cudaMemRangeAttributeReadMostly, p, half) == 0);
    REQUIRE(asked(cudaMemRangeAttributePreferredLocation, p, n) == cudaInvalidDeviceId);
    CHECK(ADVISE(p, n, cudaMemAdviseSetPreferredLocation, 0));
    REQUIRE(asked(cudaMemRangeAttributePreferredLocation, p, n) == 0);
    CHECK(ADVISE(p + half, half, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
    REQUIRE(asked(cudaMemRangeAttributePreferredLocation, p + half, half) == cudaCpuDeviceId);
    REQUIRE(asked(cudaMemRangeAttributePreferredLocation, p, n) == cudaInvalidDeviceId);
    CHECK(ADVISE(p, n, cudaMemAdviseUnsetPreferredLocation, 0));
    REQUIRE(asked(cudaMemRangeAttributePreferredLocation, p, half) == cudaInvalidDeviceId);
    CHECK(ADVISE(p, half, cudaMemAdviseSetAccessedBy, 0));
    CHECK(cudaMemRangeGetAttribute(list, sizeof list, cudaMemRangeAttributeAccessedBy, p, half));
    REQUIRE(list[0] == 0 && list[1] == cudaInvalidDeviceId);
    CHECK(cudaMemRangeGetAttribute(list, sizeof list, cudaMemRangeAttributeAccessedBy, p, n));
    REQUIRE(list[0] == cudaInvalidDeviceId && list[1] == cudaInvalidDeviceId);
    CHECK(ADVISE(p, n, cudaMemAdviseUnsetAccessedBy, 0));
    REQUIRE(asked(cudaMemRangeAttributeLastPrefetchLocation, p, n) == cudaInvalidDeviceId);
    CHECK(PREFETCH(p, n, 0));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(asked(cudaMemRangeAttributeLastPrefetchLocation, p, n) == 0);
    CHECK(PREFETCH(p, half, cudaCpuDeviceId));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(asked(cudaMemRangeAttributeLastPrefetchLocation, p, half) == cudaCpuDeviceId);
    REQUIRE(asked(cudaMemRangeAttributeLastPrefetchLocation, p, n) == cudaInvalidDeviceId);
    REQUIRE(hash(p, n) == content);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamAttachMemAsync(stream, p));
    CHECK(cudaStreamSynchronize(stream));
    change<<<8, 128, 0, stream>>>(p, n);
    CHECK(cudaStreamAttachMemAsync(stream, p, 0, cudaMemAttachGlobal));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(hash(p, n) != content);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(p));
    printf("advice: remembered\n");
}

__global__ void slow(unsigned *managed, unsigned *out, int rounds) {
    for (int r = 0; r < rounds; r++) managed[threadIdx.x] = managed[threadIdx.x] * 5 + threadIdx.x;
    out[threadIdx.x] = managed[threadIdx.x];
}

// Memory is freed when the work that uses it is done, and new memory may lie where it was.
static void freedInUse() {
    const int threads = 64, rounds = 2000;
    unsigned *out, got[threads], want[threads], start[threads];
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&out, sizeof got));
    for (int turn = 0; turn < 3; turn++) {
        unsigned *m, *next;
        CHECK(cudaMallocManaged(&m, sizeof got));
        for (int i = 0; i < threads; i++) m[i] = start[i] = rng.next();
        for (int i = 0; i < 3; i++) slow<<<1, threads, 0, stream>>>(m, out, rounds);
        CHECK(cudaFree(m));
        CHECK(cudaMallocManaged(&next, sizeof got));
        memset(next, 0xff, sizeof got);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
        for (int i = 0; i < threads; i++) {
            want[i] = start[i];
            for (int r = 0; r < 3 * rounds; r++) want[i] = want[i] * 5 + unsigned(i);
            REQUIRE(got[i] == want[i] && next[i] == 0xffffffffu);
        }
        CHECK(cudaFree(next));
    }
    CHECK(cudaFree(out));
    CHECK(cudaStreamDestroy(stream));
    printf("freed in use: as expected\n");
}

int main() {
    inTurn();
    pointersInIt();
    atTheSameTime();
    copies();
    boxes();
    fills();
    attributes();
    advice();
    freedInUse();
}
