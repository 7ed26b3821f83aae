// SPDX-License-Identifier: Apache-2.0
// Copies between the first of all GPUs and each other one, kernels that read and write the other's
// memory, and copies between the host and one GPU or all at once. Prints lines of name, value and
// unit: medians of several runs, by the host's clock. What several have at once is told for each.
// Where there are more than two, the names of what the further ones do end with their number, and
// each also copies to the next one at the same time.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
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

// Where threads wait for each other. They don't sleep, so no time to wake up is measured. They
// yield: a guest may have all on one processor, which one that waits must not keep.
class Meeting {
    const int threads;
    std::atomic<int> arrived{0};

  public:
    explicit Meeting(int n) : threads(n) {}
    void meet() {
        int want = (arrived.fetch_add(1) / threads + 1) * threads;
        while (arrived.load() < want) std::this_thread::yield();
    }
};

// Threads run at the same time, each for its GPU: from the first one's begin to the last one's end.
// They live through all runs: where a thread starts, and on which processor, takes a guest longer
// than a copy.
static double secondsOfAll(int gpus, const std::function<void(int)> &run) {
    std::vector<double> all;
    Meeting meeting(gpus);
    std::vector<Clock::time_point> begin(gpus), end(gpus);
    auto thread = [&](int i) {
        CHECK(cudaSetDevice(i));
        for (int n = 0; n <= RUNS; n++) {
            meeting.meet();
            begin[i] = Clock::now();
            run(i);
            end[i] = Clock::now();
            meeting.meet();
            std::chrono::duration<double> t = *std::max_element(end.begin(), end.end()) -
                                              *std::min_element(begin.begin(), begin.end());
            if (i == 0) all.push_back(t.count());
            meeting.meet(); // the times were read
        }
    };
    std::vector<std::thread> threads;
    for (int i = gpus - 1; i >= 0; i--) threads.emplace_back(thread, i);
    for (std::thread &each : threads) each.join();
    return median(all);
}

static void print(const std::string &name, size_t bytes, double seconds) {
    printf("%s %.2f GB/s\n", name.c_str(), bytes / seconds / 1e9);
    fflush(stdout);
}

static void rate(const std::string &name, size_t bytes, const std::function<void()> &run) {
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

// What is told of another GPU than the second.
static std::string of(int gpu) { return gpu == 1 ? "" : "." + std::to_string(gpu); }

// From the first GPU, whose memory is at a, to another one.
static void copies(const char *access, char *a, char *b, int gpu) {
    const std::string end = access + of(gpu);
    cudaStream_t s;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreate(&s));
    rate("copy.1GiB." + end, GIB, [&] {
        CHECK(cudaMemcpyPeerAsync(b, gpu, a, 0, GIB, s));
        CHECK(cudaStreamSynchronize(s));
    });
    rate("copy.1MiB." + end, 64 << 20, [&] {
        for (int i = 0; i < 64; i++) CHECK(cudaMemcpyPeerAsync(b, gpu, a, 0, 1 << 20, s));
        CHECK(cudaStreamSynchronize(s));
    });
    CHECK(cudaStreamDestroy(s));
}

// Memory of the host's, from and to one GPU, and all at once. One thread queues copies of pinned
// memory. Those of pageable memory have a thread for each GPU, since a call returns when its copy
// has ended.
static void hostCopies(bool pinned, const std::vector<char *> &host,
                       const std::vector<char *> &device) {
    const size_t bytes = GIB / 4;
    const int gpus = device.size();
    char name[64];
    std::vector<cudaStream_t> s(gpus);
    for (int i = gpus - 1; i >= 0; i--) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaStreamCreate(&s[i]));
    }
    for (int n : {1, gpus}) {
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
                for (int i = 0; i < n; i++) queue(i);
                for (int i = 0; i < n; i++) CHECK(cudaStreamSynchronize(s[i]));
            };
            snprintf(name, sizeof(name), "host.%s.%s.%s", pinned ? "pinned" : "pageable",
                     out ? "from" : "to", n == 1 ? "one" : n == 2 ? "both" : "all");
            print(name, bytes,
                  pinned ? seconds(queued) :
                  n > 1  ? secondsOfAll(n, copy) :
                           seconds([&] { copy(0); }));
        }
    }
    for (cudaStream_t each : s) CHECK(cudaStreamDestroy(each));
}

static void withHost(const std::vector<char *> &device) {
    std::vector<char *> host(device.size());
    for (char *&p : host) {
        p = (char *)malloc(GIB / 4);
        memset(p, 1, GIB / 4);
    }
    hostCopies(false, host, device);
    for (char *&p : host) {
        free(p);
        CHECK(cudaHostAlloc((void **)&p, GIB / 4, cudaHostAllocPortable));
        memset(p, 1, GIB / 4);
    }
    hostCopies(true, host, device);
    for (char *p : host) CHECK(cudaFreeHost(p));
}

// Whether each GPU can reach the memory of each other one.
static bool canAll(int gpus) {
    int can, all = 1;
    for (int i = 0; i < gpus; i++)
        for (int j = 0; j < gpus; j++)
            if (i != j) {
                CHECK(cudaDeviceCanAccessPeer(&can, i, j));
                all &= can;
            }
    return all;
}

// The first GPU, whose memory is at a, and another one.
static void withAccess(char *a, char *b, int gpu, const std::vector<cudaStream_t> &s) {
    const std::string end = of(gpu);
    copies("with-access", a, b, gpu);
    CHECK(cudaSetDevice(0));
    rate("kernel.reads-peer" + end, GIB, [&] {
        copy<<<2048, 512>>>((uint4 *)a, (const uint4 *)b, GIB / 16);
        CHECK(cudaDeviceSynchronize());
    });
    rate("kernel.writes-peer" + end, GIB, [&] {
        copy<<<2048, 512>>>((uint4 *)b, (const uint4 *)a, GIB / 16);
        CHECK(cudaDeviceSynchronize());
    });
    if (gpu == 1)
        rate("kernel.own-memory", GIB / 2, [&] {
            copy<<<2048, 512>>>((uint4 *)a, (const uint4 *)(a + GIB / 2), GIB / 32);
            CHECK(cudaDeviceSynchronize());
        });
    rate("copy.both-ways" + end, GIB, [&] {
        CHECK(cudaMemcpyPeerAsync(b, gpu, a, 0, GIB / 2, s[0]));
        CHECK(cudaMemcpyPeerAsync(a + GIB / 2, 0, b + GIB / 2, gpu, GIB / 2, s[gpu]));
        for (int i : {0, gpu}) CHECK(cudaStreamSynchronize(s[i]));
    });
}

// Each copies to the next one at the same time.
static void ring(const std::vector<char *> &memory, const std::vector<cudaStream_t> &s) {
    const int gpus = memory.size();
    rate("copy.ring", GIB / 2, [&] {
        for (int i = 0; i < gpus; i++) {
            const int next = (i + 1) % gpus;
            CHECK(cudaMemcpyPeerAsync(memory[next] + GIB / 2, next, memory[i], i, GIB / 2, s[i]));
        }
        for (cudaStream_t each : s) CHECK(cudaStreamSynchronize(each));
    });
}

int main() {
    int gpus;
    CHECK(cudaGetDeviceCount(&gpus));
    if (gpus < 2) {
        fprintf(stderr, "there are not two GPUs\n");
        return 1;
    }
    const bool access = canAll(gpus);
    std::vector<char *> memory;
    for (int i = 0; i < gpus; i++) memory.push_back(on(i));
    withHost(memory);
    for (int i = 1; i < gpus; i++) copies("without-access", memory[0], memory[i], i);
    if (!access) {
        printf("access 0 \n");
        return 0;
    }
    std::vector<cudaStream_t> s(gpus);
    for (int i = 0; i < gpus; i++) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaStreamCreate(&s[i]));
        for (int j = 0; j < gpus; j++)
            if (i != j) CHECK(cudaDeviceEnablePeerAccess(j, 0));
    }
    for (int i = 1; i < gpus; i++) withAccess(memory[0], memory[i], i, s);
    if (gpus > 2) ring(memory, s);
}
