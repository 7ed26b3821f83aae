// SPDX-License-Identifier: Apache-2.0
// What launches cost, and how fast they go.
//   --scale N            work in hundredths
//   --crossings N        launch N empty kernels in bursts of 10,000 and nothing else
//   --sleeps N           launch N long kernels, sleep until each is over, and nothing else
#include "bench.h"
#include <sys/wait.h>
#include <thread>
#include <utility>

#define EIGHT(x, n) x n##0, x n##1, x n##2, x n##3, x n##4, x n##5, x n##6, x n##7
#define ALL(x)                                                                                 \
    EIGHT(x, a), EIGHT(x, b), EIGHT(x, c), EIGHT(x, d), EIGHT(x, e), EIGHT(x, f), EIGHT(x, g), \
        EIGHT(x, h)
#define NUMBERS(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7

__global__ void one(int) {}
__global__ void eight(EIGHT(int, a)) {}
__global__ void sixtyfour(ALL(int)) {}

static void launch1(cudaStream_t s, int i) { one<<<1, 32, 0, s>>>(i); }
static void launch8(cudaStream_t s, int i) { eight<<<1, 32, 0, s>>>(NUMBERS(i)); }
static void launch64(cudaStream_t s, int i) {
    sixtyfour<<<1, 32, 0, s>>>(NUMBERS(i), NUMBERS(i), NUMBERS(i), NUMBERS(i), NUMBERS(i),
                               NUMBERS(i), NUMBERS(i), NUMBERS(i));
}

static int scale;

static int scaled(int n) { return std::max(1, int(n * (long long)scale / 100)); }

// submission measures what n launches take until the last call has returned, less the clock.
template <class F> static void submission(const char *name, int n, int times, F launch) {
    const double clock = clockCost();
    std::vector<double> took;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int t = 0; t < times + 1; t++) {
        const double begin = now();
        for (int i = 0; i < n; i++) launch(stream, i);
        const double end = now();
        CHECK(cudaStreamSynchronize(stream));
        if (t) took.push_back((end - begin - clock) / n);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaStreamDestroy(stream));
    result(name, median(took), "us");
}

static void submissions() {
    const int many = scaled(20000), few = std::min(many, 200);
    submission("submit.1.burst", few, 25, launch1);
    submission("submit.8.burst", few, 25, launch8);
    submission("submit.64.burst", few, 25, launch64);
    submission("submit.1.stream", many, 3, launch1);
    submission("submit.8.stream", many, 3, launch8);
    submission("submit.64.stream", many, 3, launch64);
}

static void perSecond(const char *name, double n, double us) { result(name, n / us * 1e6, "/s"); }

// rates measures empty kernels from the first launch to the end of the last.
static void rates() {
    const int n = scaled(20000);
    cudaStream_t s[4];
    for (auto &stream : s) CHECK(cudaStreamCreate(&stream));
    auto loop = [&](int streams, int count) {
        for (int i = 0; i < count; i++) launch1(s[i % streams], i);
        CHECK(cudaDeviceSynchronize());
    };
    loop(4, n / 4);
    perSecond("rate.stream", n, repeat(5, [&] { loop(1, n); }));
    perSecond("rate.streams4", n, repeat(5, [&] { loop(4, n); }));
    perSecond("rate.threads4", n / 4 * 4, repeat(5, [&] {
        std::vector<std::thread> threads;
        for (auto &stream : s)
            threads.emplace_back([&, n] {
                for (int i = 0; i < n / 4; i++) launch1(stream, i);
                CHECK(cudaStreamSynchronize(stream));
            });
        for (auto &thread : threads) thread.join();
    }));
    for (auto &stream : s) CHECK(cudaStreamDestroy(stream));
}

// Step K is one of many small kernels that differ.
template <int K> __global__ void step(unsigned *x) {
    const unsigned i = threadIdx.x;
    x[i] = x[i] * (2 * K + 3) + (x[i] >> (K % 13 + 1)) + K;
}

const int steps = 200, lanes = 32;
typedef void (*Step)(unsigned *);

template <int... K> static const Step *table(std::integer_sequence<int, K...>) {
    static const Step all[] = {step<K>...};
    return all;
}

static void chain() {
    const Step *all = table(std::make_integer_sequence<int, steps>());
    const int times = scaled(1000);
    unsigned x[lanes], want[lanes], *dev;
    for (int i = 0; i < lanes; i++) x[i] = want[i] = i * 2654435761u;
    CHECK(cudaMalloc(&dev, sizeof x));
    auto run = [&](int count) {
        for (int t = 0; t < count; t++)
            for (int k = 0; k < steps; k++) all[k]<<<1, lanes>>>(dev);
        CHECK(cudaDeviceSynchronize());
    };
    run(1);
    CHECK(cudaMemcpy(dev, x, sizeof x, cudaMemcpyHostToDevice));
    const double begin = now();
    run(times);
    perSecond("rate.chain200", double(times) * steps, now() - begin);
    CHECK(cudaMemcpy(x, dev, sizeof x, cudaMemcpyDeviceToHost));
    for (int t = 0; t < times; t++)
        for (unsigned k = 0; k < steps; k++)
            for (unsigned &w : want) w = w * (2 * k + 3) + (w >> (k % 13 + 1)) + k;
    if (memcmp(x, want, sizeof x))
        fprintf(stderr, "launch: the chain computed wrong numbers\n"), exit(1);
    CHECK(cudaFree(dev));
}

// mixed queues launches, memsets and small copies in turn.
static void mixed() {
    const int n = scaled(4000);
    char source[256] = {1}, *dev;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&dev, 1 << 16));
    auto loop = [&](int count) {
        for (int i = 0; i < count; i++) {
            CHECK(cudaMemcpyAsync(dev, source, sizeof source, cudaMemcpyHostToDevice, stream));
            launch8(stream, i);
            CHECK(cudaMemsetAsync(dev + 4096, i, 4096, stream));
            launch1(stream, i);
        }
        CHECK(cudaStreamSynchronize(stream));
    };
    loop(10);
    perSecond("rate.mixed", 4.0 * n, repeat(3, [&] { loop(n); }));
    CHECK(cudaFree(dev));
    CHECK(cudaStreamDestroy(stream));
}

static void events() {
    const int n = scaled(2000);
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    result("event", repeat(5, [&] {
        for (int i = 0; i < n; i++) {
            CHECK(cudaEventRecord(event, 0));
            CHECK(cudaEventSynchronize(event));
        }
    }) / n, "us");
    CHECK(cudaEventDestroy(event));
}

static void roundTrip(const char *name, unsigned flags) {
    const int n = scaled(2000);
    CHECK(cudaSetDeviceFlags(flags));
    CHECK(cudaFree(0));
    sleep(1); // what the start of this process and the end of another one make the host do is over
              // by then
    auto loop = [](int count) {
        for (int i = 0; i < count; i++) {
            launch1(0, i);
            CHECK(cudaStreamSynchronize(0));
        }
    };
    loop(n / 10 + 1);
    result(name, repeat(5, [&] { loop(n); }) / n, "us");
}

// busy runs for so many nanoseconds.
__global__ void busy(unsigned long long ns) {
    unsigned long long begin, end;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
    while (end - begin < ns);
}

// waiting measures what the launch of a long kernel and the wait for it take beyond its own time.
template <class F> static void waiting(const char *name, int us, F wait) {
    std::vector<double> took;
    for (int i = 0; i < scaled(100); i++) {
        const int more = i * us / 200;  // a kernel isn't always as long to the microsecond
        const double begin = now();
        busy<<<1, 1>>>((us + more) * 1000ull);
        wait();
        took.push_back(now() - begin - us - more);
    }
    CHECK(cudaGetLastError());
    result(name, median(took), "us");
}

static void waits() {
    int *dev, host;
    CHECK(cudaMalloc(&dev, sizeof host));
    const auto synchronize = [] { CHECK(cudaDeviceSynchronize()); };
    const auto fetch = [&] { CHECK(cudaMemcpy(&host, dev, sizeof host, cudaMemcpyDeviceToHost)); };
    waiting("wait.300us", 300, synchronize);
    waiting("wait.4ms", 4000, synchronize);
    waiting("fetch.300us", 300, fetch);
    waiting("fetch.4ms", 4000, fetch);
    CHECK(cudaFree(dev));
}

// crossings launches and does nothing else, so that the VM's counters speak of launches.
static void crossings(long long n) {
    for (long long i = 0; i < n; i++) {
        launch1(0, int(i));
        if (i % 10000 == 9999) CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaDeviceSynchronize());
    result("launched", double(n), "launches");
}

// sleeps has the thread sleep once for each of n kernels, whatever the machine does meanwhile.
static void sleeps(long long n) {
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    scale = int(n);  // of which waiting makes 100 hundredths
    waiting("sleep.4ms", 4000, [] { CHECK(cudaDeviceSynchronize()); });
}

int main(int argc, char **argv) {
    scale = int(option(argc, argv, "--scale", 100));
    if (const long long n = option(argc, argv, "--crossings", 0)) {
        crossings(n);
        return 0;
    }
    if (const long long n = option(argc, argv, "--sleeps", 0)) {
        sleeps(n);
        return 0;
    }
    machine();
    // A thread's way of waiting is the context's, so that another process measures the other one.
    if (const pid_t child = fork()) {
        int status;
        waitpid(child, &status, 0);
        if (status) return 1;
    } else {
        roundTrip("sync.blocking", cudaDeviceScheduleBlockingSync);
        return 0;
    }
    roundTrip("sync.spin", cudaDeviceScheduleSpin);
    submissions();
    rates();
    chain();
    events();
    waits();
    mixed();
}
