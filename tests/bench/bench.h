// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: checked calls, a clock, medians, results as lines "name value unit".
#pragma once
#include <cuda_runtime.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call) check((call), #call, __FILE__, __LINE__)

inline void check(cudaError_t e, const char *call, const char *file, int line) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, cudaGetErrorName(e), int(e));
    exit(1);
}

// now is the time in microseconds. In User Mode Linux reading it is a system call.
inline double now() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

inline void result(const char *name, double value, const char *unit) {
    printf("%s %.6g %s\n", name, value, unit);
    fflush(stdout);
}

inline void skipped(const char *name, const char *why) { printf("# %s skipped: %s\n", name, why); }

// repeat runs a loop n times and returns the median of what each took, in microseconds.
template <class F> double repeat(int n, F loop) {
    std::vector<double> took;
    for (int i = 0; i < n; i++) {
        const double begin = now();
        loop();
        took.push_back(now() - begin);
    }
    return median(took);
}

// clockCost is what one reading of the clock costs, in microseconds.
inline double clockCost() {
    return repeat(5, [] { for (int i = 0; i < 500; i++) now(); }) / 500;
}

// machine says what a system call and a reading of the clock cost here, and returns the latter.
inline double machine() {
    result("syscall",
           repeat(5,
                  [] {
                      for (int i = 0; i < 500; i++) syscall(SYS_getppid);
                  }) /
               500,
           "us");
    const double clock = clockCost();
    result("clock", clock, "us");
    return clock;
}

// option returns the number that follows a name among the arguments.
inline long long option(int argc, char **argv, const char *name, long long otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name)) return atoll(argv[i + 1]);
    return otherwise;
}
