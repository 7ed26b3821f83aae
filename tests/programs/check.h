// SPDX-License-Identifier: Apache-2.0
// What the test programs share: checked calls, errors reported by name, a generator of numbers.
#pragma once
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// CHECK ends the program where a CUDA call returns an error.
#define CHECK(call) check((call), #call, __FILE__, __LINE__)

inline void check(cudaError_t e, const char *call, const char *file, int line) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, cudaGetErrorName(e), int(e));
    exit(1);
}

// REQUIRE ends the program where a condition doesn't hold.
#define REQUIRE(cond) require((cond), #cond, __FILE__, __LINE__)

inline void require(bool holds, const char *cond, const char *file, int line) {
    if (holds) return;
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, cond);
    exit(1);
}

// REPORT prints how a CUDA call ended, to be compared with a native run.
#define REPORT(call) report((call), #call)

inline void report(cudaError_t e, const char *call) {
    printf("%s: %s (%d)\n", call, cudaGetErrorName(e), int(e));
}

// Random yields the same numbers on host and device (splitmix64).
struct Random {
    uint64_t state;

    __host__ __device__ uint64_t next64() {
        uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    __host__ __device__ uint32_t next() { return uint32_t(next64() >> 32); }
    __host__ __device__ uint32_t below(uint32_t n) { return uint32_t(uint64_t(next()) * n >> 32); }
};

// allBytes says whether every byte is so.
inline bool allBytes(const void *data, int value, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    return !size || (*p == (unsigned char)value && !memcmp(p, p + 1, size - 1));
}

// hash is FNV-1a over bytes, for printing results in short.
inline uint64_t hash(const void *data, size_t size, uint64_t h = 0xcbf29ce484222325ull) {
    for (size_t i = 0; i < size; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
    return h;
}
