// SPDX-License-Identifier: Apache-2.0
// Copies between two GPUs, kernels that read and write the other's memory, and copies between the
// host and one GPU or both at once. Prints lines of name, value and unit: medians of several runs,
// by the host's clock. What both have at once is told for each.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#define CHECK(call) check((call), #call)

static void check(cudaError_t e, const char *call) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorName(e));
    exit(1);
}

static const size_t GIB = 1 << 30;
static const int RUNS = 15;

static __global__ void copy(uint4 *to, const uint4 *from, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        to[i] = from[i];
}

using Clock = std::chrono::steady_clock;

// The first of several runs warms up.
static double median(std::vector<double> all) {
    all.erase(all.begin());
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
}

static double seconds(const std::function<void()> &run) {
    std::vector<double> all;
    for (int i = 0; i <= RUNS; i++) {
        auto begin = Clock::now();
        run();
        std::chrono::duration<double> t = Clock::now() - begin;
        all.push_back(t.count());
    }
    return median(all);
}

// Where two threads wait for each other. They don't sleep, so no time to wake up is measured. They
// yield: a guest may have both on one processor, which the one that waits must not keep.
class Meeting {
    std::atomic<int> arrived{0};

  public:
    void meet() {
        int want = (arrived.fetch_add(1) / 2 + 1) * 2;
        while (arrived.load() < want) std::this_thread::yield();
    }
};

// Two threads run at the same time, each for its GPU: from the first one's begin to the last one's
// end. They live through all runs: where a thread starts, and on which processor, takes a guest
// longer than a copy.
static double secondsOfTwo(const std::function<void(int)> &run) {
    std::vector<double> all;
    Meeting meeting;
    Clock::time_point begin[2], end[2];
    auto thread = [&](int i) {
        CHECK(cudaSetDevice(i));
        for (int n = 0; n <= RUNS; n++) {
            meeting.meet();
            begin[i] = Clock::now();
            run(i);
            end[i] = Clock::now();
            meeting.meet();
            std::chrono::duration<double> t =
                std::max(end[0], end[1]) - std::min(begin[0], begin[1]);
            if (i == 0) all.push_back(t.count());
            meeting.meet(); // the times were read
        }
    };
    std::thread other(thread, 1), first(thread, 0);
    first.join();
    other.join();
    return median(all);
}

static void print(const char *name, size_t bytes, double seconds) {
    printf("%s %.2f GB/s\n", name, bytes / seconds / 1e9);
    fflush(stdout);
}

static void rate(const char *name, size_t bytes, const std::function<void()> &run) {
    print(name, bytes, seconds(run));
}

static char *on(int device) {
    char *p;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&p, GIB));
    CHECK(cudaMemset(p, device, GIB));
    CHECK(cudaDeviceSynchronize());
    return p;
}

static void copies(const char *access, char *a, char *b) {
    char name[64];
    cudaStream_t s;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreate(&s));
    snprintf(name, sizeof(name), "copy.1GiB.%s", access);
    rate(name, GIB, [&] {
        CHECK(cudaMemcpyPeerAsync(b, 1, a, 0, GIB, s));
        CHECK(cudaStreamSynchronize(s));
    });
    snprintf(name, sizeof(name), "copy.1MiB.%s", access);
    rate(name, 64 << 20, [&] {
        for (int i = 0; i < 64; i++) CHECK(cudaMemcpyPeerAsync(b, 1, a, 0, 1 << 20, s));
        CHECK(cudaStreamSynchronize(s));
    });
    CHECK(cudaStreamDestroy(s));
}

// Memory of the host's, from and to one GPU, and both at once. One thread queues copies of pinned
// memory. Those of pageable memory have a thread for each GPU, since a call returns when its copy
// has ended.
static void hostCopies(bool pinned, char *host[2], char *device[2]) {
    const size_t bytes = GIB / 4;
    char name[64];
    cudaStream_t s[2];
    for (int i = 1; i >= 0; i--) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaStreamCreate(&s[i]));
    }
    for (int both = 0; both < 2; both++) {
        for (int out = 0; out < 2; out++) {
            auto queue = [&](int i) {
                CHECK(cudaSetDevice(i));
                CHECK(out ? cudaMemcpyAsync(host[i], device[i], bytes, cudaMemcpyDeviceToHost, s[i])
                          : cudaMemcpyAsync(device[i], host[i], bytes, cudaMemcpyHostToDevice,
                                            s[i]));
            };
            auto copy = [&](int i) {
                CHECK(out ? cudaMemcpy(host[i], device[i], bytes, cudaMemcpyDeviceToHost)
                          : cudaMemcpy(device[i], host[i], bytes, cudaMemcpyHostToDevice));
            };
            auto queued = [&] {
                for (int i = 0; i <= both; i++) queue(i);
                for (int i = 0; i <= both; i++) CHECK(cudaStreamSynchronize(s[i]));
            };
            snprintf(name, sizeof(name), "host.%s.%s.%s", pinned ? "pinned" : "pageable",
                     out ? "from" : "to", both ? "both" : "one");
            print(name, bytes,
                  pinned ? seconds(queued) :
                  both   ? secondsOfTwo(copy) :
                           seconds([&] { copy(0); }));
        }
    }
    for (cudaStream_t each : s) CHECK(cudaStreamDestroy(each));
}

static void withHost(char *device[2]) {
    char *host[2];
    for (char *&p : host) {
        p = (char *)malloc(GIB / 4);
        memset(p, 1, GIB / 4);
    }
    hostCopies(false, host, device);
    for (int i = 0; i < 2; i++) {
        free(host[i]);
        CHECK(cudaHostAlloc((void **)&host[i], GIB / 4, cudaHostAllocPortable));
        memset(host[i], 1, GIB / 4);
    }
    hostCopies(true, host, device);
    for (char *p : host) CHECK(cudaFreeHost(p));
}

int main() {
    int can[2], devices;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        fprintf(stderr, "there are not two GPUs\n");
        return 1;
    }
    CHECK(cudaDeviceCanAccessPeer(&can[0], 0, 1));
    CHECK(cudaDeviceCanAccessPeer(&can[1], 1, 0));
    char *a = on(0), *b = on(1);
    char *both[] = {a, b};
    withHost(both);
    copies("without-access", a, b);
    if (!can[0] || !can[1]) {
        printf("access 0 \n");
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaDeviceEnablePeerAccess(1 - i, 0));
    }
    copies("with-access", a, b);
    CHECK(cudaSetDevice(0));
    rate("kernel.reads-peer", GIB, [&] {
        copy<<<2048, 512>>>((uint4 *)a, (const uint4 *)b, GIB / 16);
        CHECK(cudaDeviceSynchronize());
    });
    rate("kernel.writes-peer", GIB, [&] {
        copy<<<2048, 512>>>((uint4 *)b, (const uint4 *)a, GIB / 16);
        CHECK(cudaDeviceSynchronize());
    });
    rate("kernel.own-memory", GIB / 2, [&] {
        copy<<<2048, 512>>>((uint4 *)a, (const uint4 *)(a + GIB / 2), GIB / 32);
        CHECK(cudaDeviceSynchronize());
    });
    // Both directions at once.
    cudaStream_t s[2];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaStreamCreate(&s[i]));
    }
    rate("copy.both-ways", GIB, [&] {
        CHECK(cudaMemcpyPeerAsync(b, 1, a, 0, GIB / 2, s[0]));
        CHECK(cudaMemcpyPeerAsync(a + GIB / 2, 0, b + GIB / 2, 1, GIB / 2, s[1]));
        for (cudaStream_t each : s) CHECK(cudaStreamSynchronize(each));
    });
}
