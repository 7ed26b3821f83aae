// SPDX-License-Identifier: Apache-2.0
// What a VM does to the others of its GPU, by the first argument, until it is killed:
//   work      what ordinary programs do: kernels of 1 ms, of which the queue never runs empty. With
//             --tell 1 it prints how many there were, and how much of its memory isn't as it was
//   endless   a kernel that doesn't end
//   seconds   kernels of 2 s
//   million   a million launches at once, again and again
//   graph     a graph of --nodes N, launched again and again; half as many if that is too large
//   crowd     work of --processes N
//   --iterations N    of a kernel that lasts 1 ms
//   --ns N            instead: a kernel of one thread that lasts so long by the GPU's clock
#include "bench.h"
#include "spin.h"
#include <sys/prctl.h>
#include <sys/wait.h>
#include <csignal>

static const int depth = 20;
static const size_t words = 16 << 20;

static int blocks = 1, threads = 1;
static long long iterations;
static unsigned long long ns;
static float *nowhere;
static cudaStream_t stream;

__global__ void endless(volatile float *f) {
    while (*f >= 0) {
    }
}

__global__ void empty() {}

__global__ void mark(unsigned *at, size_t n, unsigned first) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += 1 << 14)
        at[i << 10] = first + i;
}

__global__ void compare(const unsigned *at, size_t n, unsigned first, unsigned *lost) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += 1 << 14)
        if (at[i << 10] != unsigned(first + i)) atomicAdd(lost, 1);
}

static void launch(int times) {
    spin<<<blocks, threads, 0, stream>>>(times * iterations, times * ns, nowhere);
}

static void work(bool tells) {
    unsigned *at, *count, lost;
    const unsigned first = getpid() * 7919u;
    CHECK(cudaMalloc(&at, words * sizeof *at));
    CHECK(cudaMalloc(&count, sizeof *count));
    CHECK(cudaMemset(count, 0, sizeof *count));
    mark<<<64, 256>>>(at, words >> 10, first);
    CHECK(cudaDeviceSynchronize());
    cudaEvent_t ended, next;
    for (cudaEvent_t *e : {&ended, &next})
        CHECK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    const auto give = [&](cudaEvent_t e) {
        for (int i = 0; i < depth; i++) launch(1);
        CHECK(cudaEventRecord(e, stream));
    };
    give(ended);
    for (long long rounds = 1;; rounds++) {
        give(next);
        CHECK(cudaEventSynchronize(ended));
        std::swap(ended, next);
        if (!tells) continue;
        result("kernels", rounds * depth, "kernels");
        if (rounds % 50) continue;
        compare<<<64, 256, 0, stream>>>(at, words >> 10, first, count);
        CHECK(cudaMemcpyAsync(&lost, count, sizeof lost, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        result("lost", lost, "pages");
    }
}

static void graphs(int nodes) {
    for (;; nodes /= 2) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < nodes; i++) empty<<<1, 32, 0, stream>>>();
        CHECK(cudaStreamEndCapture(stream, &graph));
        const cudaError_t e = cudaGraphInstantiate(&exec, graph, 0);
        if (e == cudaErrorMemoryAllocation && nodes > 1000) {
            CHECK(cudaGraphDestroy(graph));
            continue;
        }
        CHECK(e);
        result("nodes", nodes, "nodes");
        for (;;) CHECK(cudaGraphLaunch(exec, stream));
    }
}

static void prepare() {
    int device, processors, resident;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaDeviceGetAttribute(&resident, cudaDevAttrMaxThreadsPerMultiProcessor, device));
    if (!ns) threads = 256, blocks = processors * (resident / threads);
    CHECK(cudaMalloc(&nowhere, sizeof *nowhere));
    CHECK(cudaMemset(nowhere, 0, sizeof *nowhere));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

// crowd has so many processes work, which end with this one.
static bool child(int processes) {
    for (int i = 0; i < processes; i++) {
        if (fork()) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const auto is = [&](const char *name) { return !strcmp(what, name); };
    iterations = option(argc, argv, "--iterations", 0);
    ns = option(argc, argv, "--ns", 0);
    if (is("crowd") && !child(option(argc, argv, "--processes", 64))) {
        while (wait(nullptr) > 0) {
        }
        return 1;
    }
    prepare();
    result("begins", getpid(), "pid");
    if (is("endless")) endless<<<1, 1, 0, stream>>>(nowhere);
    while (is("seconds")) {
        launch(2000);
        CHECK(cudaStreamSynchronize(stream));
    }
    while (is("million")) {
        for (int i = 0; i < 1000000; i++) empty<<<1, 32, 0, stream>>>();
        CHECK(cudaStreamSynchronize(stream));
    }
    if (is("graph")) graphs(option(argc, argv, "--nodes", 100000));
    if (is("work") || is("crowd")) work(option(argc, argv, "--tell", 0));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
