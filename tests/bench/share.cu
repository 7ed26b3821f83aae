// SPDX-License-Identifier: Apache-2.0
// A tenant of a GPU that others use, too: kernels of a length, and how long their program waits.
//   --iterations N    of a kernel that fills the GPU; --calibrate N says how long so many take
//   --ns N            instead: a kernel of one thread that lasts so long by the GPU's clock
//   --depth N         kernels that are launched before they are waited for; if not 1, the next ones
//                     are launched before that, so that the queue never runs empty
//   --graph N         kernels of a graph that is launched in place of each
//   --think US        from the end of a wait to the next launch, on average: from half of it to
//                     half more, so that launches don't keep step with the GPU's time slices
//   --at S            when the window begins, by the system's clock; tenants begin before that
//   --seconds MS      how long it is, in milliseconds
//   --processes N     so many of them, each counted by itself
//   --memory MB       it has so much device memory, and looks in the end that nothing of it is lost
//   --rates 1         instead of all that: empty kernels a second, and launch + synchronize
#include "bench.h"
#include "spin.h"
#include <sys/wait.h>
#include <random>
#include <utility>
#include <x86intrin.h>

__global__ void empty() {}

// A program's memory, in pieces as a framework has them. Each page of it knows which one it is.
static const size_t pieceBytes = 256 << 20, pageBytes = 4096;

struct Piece {
    unsigned *at;
    size_t pages, first;
};

static std::vector<Piece> memory;

__global__ void mark(unsigned *at, size_t pages, unsigned first) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < pages; i += step)
        at[i * (pageBytes / sizeof *at)] = first + i;
}

__global__ void compare(const unsigned *at, size_t pages, unsigned first, unsigned *lost) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < pages; i += step)
        if (at[i * (pageBytes / sizeof *at)] != unsigned(first + i)) atomicAdd(lost, 1);
}

static void have(size_t bytes) {
    const size_t salt = getpid() * 7919u;  // so that no other tenant's pages are the same
    for (size_t done = 0; done < bytes; done += pieceBytes) {
        Piece p = {nullptr, std::min(pieceBytes, bytes - done) / pageBytes,
                   salt + done / pageBytes};
        CHECK(cudaMalloc(&p.at, p.pages * pageBytes));
        mark<<<64, 256>>>(p.at, p.pages, p.first);
        memory.push_back(p);
    }
    CHECK(cudaDeviceSynchronize());
}

// lost is how many pages of all aren't what they were.
static unsigned lost() {
    unsigned *count, n;
    CHECK(cudaMalloc(&count, sizeof *count));
    CHECK(cudaMemset(count, 0, sizeof *count));
    for (const Piece &p : memory) compare<<<64, 256>>>(p.at, p.pages, p.first, count);
    CHECK(cudaMemcpy(&n, count, sizeof n, cudaMemcpyDeviceToHost));
    return n;
}

static int blocks, threads;
static long long iterations;
static unsigned long long ns;
static float *nowhere;
static cudaStream_t stream;
static cudaGraphExec_t graph;

// slow_wall is the system's clock, in seconds: the same on the host and in its guests.
static double slow_wall() {
    using namespace std::chrono;
    return duration<double>(system_clock::now().time_since_epoch()).count();
}

static double base, tick;  // slow_wall when the counter was 0, and seconds for each of its ticks

// wall is the same by the processor's counter: in User Mode Linux the clock takes 15 us to read.
static double wall() { return base + __rdtsc() * tick; }

// set_clock compares the two for so many seconds.
static void set_clock(double seconds) {
    const double begin = slow_wall();
    const unsigned long long ticks = __rdtsc();
    usleep(seconds * 1e6);
    const double end = slow_wall();
    tick = (end - begin) / (__rdtsc() - ticks);
    base = end - __rdtsc() * tick;
}

// processor is for how long this process has used processors, in seconds.
static double processor() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void launch() {
    if (graph)
        CHECK(cudaGraphLaunch(graph, stream));
    else
        spin<<<blocks, threads, 0, stream>>>(iterations, ns, nowhere);
}

static void prepare(int nodes) {
    int device, processors, resident;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaDeviceGetAttribute(&resident, cudaDevAttrMaxThreadsPerMultiProcessor, device));
    threads = ns ? 1 : 256;
    blocks = ns ? 1 : processors * (resident / threads);
    CHECK(cudaMalloc(&nowhere, sizeof *nowhere));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (!nodes) return;
    cudaGraph_t captured;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; i++) launch();
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&graph, captured, 0));
}

static void calibrate() {
    launch();
    CHECK(cudaStreamSynchronize(stream));
    result("kernel", repeat(50, [] { launch(); CHECK(cudaStreamSynchronize(stream)); }), "us");
}

static void rates() {
    const int many = ns ? 2000 : 50000;
    const auto burst = [&] {
        for (int i = 0; i < many; i++) empty<<<1, 32, 0, stream>>>();
        CHECK(cudaStreamSynchronize(stream));
    };
    burst();
    result("rate", many / repeat(5, burst) * 1e6, "/s");
    result("sync", repeat(many / 20, [] {
               empty<<<1, 32, 0, stream>>>();
               CHECK(cudaStreamSynchronize(stream));
           }), "us");
}

static double quantile(std::vector<double> &v, double q) {
    if (v.empty()) return 0;
    std::sort(v.begin(), v.end());
    return v[std::min(v.size() - 1, size_t(q * v.size()))];
}

static void tenant(int depth, int each, double think, double at, double seconds) {
    // It goes on beyond the window's end: the others' window is as full.
    const double end = at + seconds, last = end + 0.5;
    std::vector<double> waits;
    long long kernels = 0;
    set_clock(0.5);
    std::mt19937 random(getpid());
    std::uniform_real_distribution<double> part(0.5, 1.5);
    double begin = wall(), busy = 0;
    if (begin > at) printf("# late by %.1f s\n", begin - at);
    cudaEvent_t ended, next;
    for (cudaEvent_t *e : {&ended, &next})
        CHECK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    const auto give = [&](cudaEvent_t mark) {
        for (int i = 0; i < depth; i++) launch();
        CHECK(cudaEventRecord(mark, stream));
    };
    if (depth > 1) give(ended);
    while (begin < last) {
        give(depth > 1 ? next : ended);
        CHECK(cudaEventSynchronize(ended));
        if (depth > 1) std::swap(ended, next);
        const double over = wall();
        if (begin >= at && over <= end) {
            if (!kernels) busy -= processor();
            kernels += (long long)depth * each;
            waits.push_back((over - begin) * 1e6);
        }
        if (over > end && busy < 0) busy += processor();
        begin = over;
        if (think > 0) {
            usleep(think * part(random));
            begin = wall();
        }
    }
    result("kernels", kernels, "kernels");
    if (kernels && busy > 0) result("cpu", busy * 1e6 / kernels, "us");
    result("wait.p50", quantile(waits, 0.5), "us");
    result("wait.p99", quantile(waits, 0.99), "us");
}

static int one(int argc, char **argv) {
    const auto told = [&](const char *name, long long otherwise) {
        return option(argc, argv, name, otherwise);
    };
    const long long calibrated = told("--calibrate", 0);
    const int nodes = told("--graph", 0);
    iterations = told("--iterations", calibrated);
    ns = told("--ns", 0);
    prepare(nodes);
    have(told("--memory", 0) << 20);
    if (calibrated)
        calibrate();
    else if (told("--rates", 0))
        rates();
    else
        tenant(told("--depth", 1), std::max(1, nodes), told("--think", 0), told("--at", 0),
               told("--seconds", 1000) / 1e3);
    CHECK(cudaDeviceSynchronize());
    if (memory.empty()) return 0;
    const unsigned pages = lost();
    result("lost", pages, "pages");
    return pages ? 1 : 0;
}

int main(int argc, char **argv) {
    const int processes = option(argc, argv, "--processes", 1);
    if (processes == 1) return one(argc, argv);
    for (int i = 0; i < processes; i++)
        if (!fork()) return one(argc, argv);
    int failed = 0, status;
    while (wait(&status) > 0) failed |= status;
    return failed ? 1 : 0;
}
