// SPDX-License-Identifier: Apache-2.0
// Rates of copies between host and device: pageable, pinned, registered memory, and kernels that
// work on pinned memory in place; what it costs to pin.
//   --max BYTES      the largest copy
//   --samples N      how often each is measured
//   --verify 0       without comparing the data, for rounds after one that did
#include "bench.h"

typedef unsigned long long Word;

static __host__ __device__ inline Word pattern(Word i, Word seed) {
    return (i + seed) * 0x9e3779b97f4a7c15ull ^ seed;
}

__global__ void fill(Word *to, Word n, Word seed) {
    for (Word i = blockIdx.x * Word(blockDim.x) + threadIdx.x; i < n;
         i += Word(gridDim.x) * blockDim.x)
        to[i] = pattern(i, seed);
}

__global__ void compare(const Word *from, Word n, Word seed, unsigned *wrong) {
    for (Word i = blockIdx.x * Word(blockDim.x) + threadIdx.x; i < n;
         i += Word(gridDim.x) * blockDim.x)
        if (from[i] != pattern(i, seed)) atomicAdd(wrong, 1u);
}

__global__ void move(ulonglong2 *to, const ulonglong2 *from, Word n) {
    for (Word i = blockIdx.x * Word(blockDim.x) + threadIdx.x; i < n;
         i += Word(gridDim.x) * blockDim.x)
        to[i] = from[i];
}

static Word *device;
static unsigned *wrong;
static int samples, blocks;
static bool verifies;
static double clockReading;
static Word seed = 12345;

static void must(bool good, const char *what, const char *way, size_t size) {
    if (good) return;
    fprintf(stderr, "copy: wrong data, %s %s, %zu bytes\n", what, way, size);
    exit(1);
}

// verify copies new numbers to the device and others back, and compares each.
template <class To, class From>
static void verify(const char *what, Word *host, size_t size, To to, From from) {
    const Word n = size / sizeof(Word);
    unsigned bad = 0;
    seed += 1000003;
    for (Word i = 0; i < n; i++) host[i] = pattern(i, seed);
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    to(size);
    compare<<<blocks, 256>>>(device, n, seed, wrong);
    CHECK(cudaMemcpy(&bad, wrong, sizeof bad, cudaMemcpyDeviceToHost));
    must(bad == 0, what, "to the device", size);
    fill<<<blocks, 256>>>(device, n, ++seed);
    CHECK(cudaDeviceSynchronize());
    from(size);
    CHECK(cudaDeviceSynchronize());
    Word differ = 0;
    for (Word i = 0; i < n; i++) differ |= host[i] ^ pattern(i, seed);
    must(differ == 0, what, "from the device", size);
}

// sample is the rate of copies in one direction. It makes as many as take long enough, waits for
// the last, and leaves out the cost of the clock.
template <class F> static double sample(size_t size, bool queued, F copy) {
    const size_t times =
        size < (1 << 20) ? 64
                         : std::max(size_t(1), std::min(size_t(16), (size_t(512) << 20) / size));
    if (size < (64u << 20)) copy(size);  // after another size
    CHECK(cudaDeviceSynchronize());
    const double begin = now();
    for (size_t i = 0; i < times; i++) {
        copy(size);
        if (!queued) CHECK(cudaStreamSynchronize(0));
    }
    CHECK(cudaStreamSynchronize(0));
    return size * times / (now() - begin - clockReading) / 1000;
}

// both verifies and measures a kind of copy in all sizes. It measures all sizes once, then all
// again: if the machine is slow for a time, that doesn't affect one size only.
template <class To, class From>
static void both(const char *what, Word *host, size_t max, bool queued, To to, From from) {
    std::vector<size_t> sizes;
    for (size_t size :
         {size_t(4) << 10, size_t(32) << 10, size_t(256) << 10, size_t(2) << 20, size_t(16) << 20,
          size_t(64) << 20, size_t(128) << 20, size_t(1) << 30, size_t(4) << 30})
        if (size <= max) sizes.push_back(size);
    std::vector<std::vector<double>> there(sizes.size()), back(sizes.size());
    if (verifies)
        for (size_t size : sizes) verify(what, host, size, to, from);
    else
        sample(sizes.back(), queued, to), sample(sizes.back(), queued, from);  // first uses
    for (int n = 0; n < samples; n++)
        for (size_t i = 0; i < sizes.size(); i++) {
            if (sizes[i] > (64u << 20) && n >= 3) break;
            there[i].push_back(sample(sizes[i], queued, to));
            back[i].push_back(sample(sizes[i], queued, from));
        }
    for (size_t i = 0; i < sizes.size(); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.h2d.%zu", what, sizes[i]);
        result(name, median(there[i]), "GB/s");
        snprintf(name, sizeof name, "%s.d2h.%zu", what, sizes[i]);
        result(name, median(back[i]), "GB/s");
    }
}

static void pageable(Word *host, size_t max) {
    both("pageable", host, max, false,
         [=](size_t n) { CHECK(cudaMemcpy(device, host, n, cudaMemcpyHostToDevice)); },
         [=](size_t n) { CHECK(cudaMemcpy(host, device, n, cudaMemcpyDeviceToHost)); });
}

static void locked(const char *what, Word *host, size_t max, bool queued) {
    both(what, host, max, queued,
         [=](size_t n) { CHECK(cudaMemcpyAsync(device, host, n, cudaMemcpyHostToDevice, 0)); },
         [=](size_t n) { CHECK(cudaMemcpyAsync(host, device, n, cudaMemcpyDeviceToHost, 0)); });
}

static void mapped(Word *host, size_t max) {
    ulonglong2 *there;
    CHECK(cudaHostGetDevicePointer(&there, host, 0));
    ulonglong2 *here = (ulonglong2 *)device;
    both(
        "mapped", host, max, true,
        [=](size_t n) {
            move<<<blocks, 256>>>(here, there, n / sizeof *here), CHECK(cudaGetLastError());
        },
        [=](size_t n) {
            move<<<blocks, 256>>>(there, here, n / sizeof *here), CHECK(cudaGetLastError());
        });
    CHECK(cudaDeviceSynchronize());
}

// pinning measures what it costs to allocate and to register memory.
static void pinning(size_t size) {
    const size_t pages = size / 4096;
    std::vector<double> alloc, release, reg, unreg;
    for (int i = 0; i < samples; i++) {
        void *p;
        const double a = now();
        CHECK(cudaHostAlloc(&p, size, cudaHostAllocDefault));
        const double b = now();
        CHECK(cudaFreeHost(p));
        const double c = now();
        p = malloc(size);
        memset(p, i + 1, size);
        const double d = now();
        CHECK(cudaHostRegister(p, size, cudaHostRegisterDefault));
        const double e = now();
        CHECK(cudaHostUnregister(p));
        const double f = now();
        free(p);
        alloc.push_back(b - a), release.push_back(c - b), reg.push_back(e - d),
            unreg.push_back(f - e);
    }
    result("hostalloc.64M", median(alloc) / 1000, "ms");
    result("freehost.64M", median(release) / 1000, "ms");
    result("register.64M", median(reg) / 1000, "ms");
    result("unregister.64M", median(unreg) / 1000, "ms");
    result("register.page", median(reg) / pages, "us");
}

// latency measures single small copies, each waited for.
static void latency(int times) {
    Word *host = (Word *)malloc(4096);
    memset(host, 1, 4096);
    result("latency.h2d.4096",
           repeat(5,
                  [=] {
                      for (int i = 0; i < times; i++)
                          CHECK(cudaMemcpy(device, host, 4096, cudaMemcpyHostToDevice));
                  }) /
               times,
           "us");
    result("latency.d2h.4096",
           repeat(5,
                  [=] {
                      for (int i = 0; i < times; i++)
                          CHECK(cudaMemcpy(host, device, 4096, cudaMemcpyDeviceToHost));
                  }) /
               times,
           "us");
    free(host);
}

int main(int argc, char **argv) {
    size_t max = option(argc, argv, "--max", 1ll << 30);
    samples = int(option(argc, argv, "--samples", 5));
    verifies = option(argc, argv, "--verify", 1);
    const size_t memory = size_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    size_t free_, total;
    cudaDeviceProp properties;
    CHECK(cudaMemGetInfo(&free_, &total));
    CHECK(cudaGetDeviceProperties(&properties, 0));
    blocks = properties.multiProcessorCount * 4;
    while (max > 4096 && (max * 5 / 2 > memory || max > free_ / 2)) {
        char name[32];
        snprintf(name, sizeof name, "copies of %zu bytes", max);
        skipped(name, "there is too little memory");
        max /= 4;
    }
    clockReading = machine();
    CHECK(cudaMalloc(&device, std::max(max, size_t(4096))));
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    latency(max < (16 << 20) ? 20 : 500);
    pinning(64 << 20);
    Word *host = (Word *)malloc(max);
    memset(host, 1, max);
    pageable(host, max);
    CHECK(cudaHostRegister(host, max, cudaHostRegisterDefault));
    locked("registered", host, max, true);
    CHECK(cudaHostUnregister(host));
    free(host);
    const size_t pinned = std::min(max, size_t(1) << 30);
    CHECK(cudaHostAlloc((void **)&host, pinned, cudaHostAllocMapped));
    locked("pinned", host, pinned, true);
    locked("pinnedwait", host, pinned, false);
    mapped(host, pinned);
    CHECK(cudaFreeHost(host));
}
