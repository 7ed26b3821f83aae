// SPDX-License-Identifier: Apache-2.0
// state MIB: fills so much device memory, and launches kernels and waits for each, without end.
// Each line is about a tenth of a second or more: the median and the longest time of a launch, in
// us. Between them a part of the memory is compared with what was filled in: the program ends when
// it differs.
#include "bench.h"

const uint64_t part = 16 << 20, words = part / 8;

__global__ void fill(uint64_t *p, uint64_t seed) {
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < words;
         i += uint64_t(gridDim.x) * blockDim.x)
        p[i] = (i + seed) * 0x9e3779b97f4a7c15ull;
}

__global__ void compare(const uint64_t *p, uint64_t seed, unsigned *differ) {
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < words;
         i += uint64_t(gridDim.x) * blockDim.x)
        if (p[i] != (i + seed) * 0x9e3779b97f4a7c15ull) atomicAdd(differ, 1);
}

__global__ void nothing() {}

int main(int, char **argv) {
    const uint64_t parts = strtoull(argv[1], nullptr, 10) * (1 << 20) / part;
    std::vector<uint64_t *> memory(parts);
    unsigned *differ, n = 0;
    CHECK(cudaMalloc(&differ, sizeof n));
    CHECK(cudaMemset(differ, 0, sizeof n));
    // Pieces of several parts: a program has few large allocations.
    for (uint64_t i = 0, many; i < parts; i += many) {
        char *p;
        many = std::min<uint64_t>(16, parts - i);
        CHECK(cudaMalloc(&p, many * part));
        for (uint64_t k = 0; k < many; k++)
            memory[i + k] = reinterpret_cast<uint64_t *>(p + k * part);
    }
    for (uint64_t i = 0; i < parts; i++) fill<<<256, 256>>>(memory[i], i);
    CHECK(cudaDeviceSynchronize());
    printf("ready\n");
    for (uint64_t round = 0;; round++) {
        std::vector<double> took;
        for (const double begin = now(); now() - begin < 1e5;) {
            const double at = now();
            nothing<<<1, 1>>>();
            CHECK(cudaDeviceSynchronize());
            took.push_back(now() - at);
        }
        compare<<<256, 256>>>(memory[round % parts], round % parts, differ);
        CHECK(cudaMemcpy(&n, differ, sizeof n, cudaMemcpyDeviceToHost));
        if (n) {
            fprintf(stderr, "state: %u words of part %zu are others\n", n, size_t(round % parts));
            return 1;
        }
        printf("%.1f %.1f\n", median(took), *std::max_element(took.begin(), took.end()));
        fflush(stdout);
    }
}
