// SPDX-License-Identifier: Apache-2.0
// state MIB [PERCENT [MS]]: fills so much device memory, and launches kernels and waits for each,
// without end. Each line is about MS ms or more, by default a tenth of a second: the median and the
// longest time of a launch, in us. Between them a part of the memory is compared with what was
// filled in: the program ends when it differs. So many of each hundred pieces are filled with
// something else each time.
#include "bench.h"

const uint64_t part = 16 << 20, words = part / 8;

const uint64_t piece = (256 << 10) / 8;  // words

// value is what word i of a part has, whose first piece is number first: the first percent of each
// hundred pieces are those that change.
__device__ uint64_t value(uint64_t i, uint64_t first, unsigned percent, uint64_t version) {
    if ((first + i / piece) % 100 >= percent) version = 0;
    return (i + first + (version << 40)) * 0x9e3779b97f4a7c15ull;
}

__global__ void fill(uint64_t *p, uint64_t first) {
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < words;
         i += uint64_t(gridDim.x) * blockDim.x)
        p[i] = value(i, first, 0, 0);
}

// change has a block for each piece.
__global__ void change(uint64_t *p, uint64_t first, unsigned percent, uint64_t version) {
    if ((first + blockIdx.x) % 100 >= percent) return;
    for (uint64_t k = threadIdx.x; k < piece; k += blockDim.x) {
        const uint64_t i = blockIdx.x * piece + k;
        p[i] = value(i, first, percent, version);
    }
}

__global__ void compare(const uint64_t *p, uint64_t first, unsigned percent, uint64_t version,
                        unsigned *differ) {
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < words;
         i += uint64_t(gridDim.x) * blockDim.x)
        if (p[i] != value(i, first, percent, version)) atomicAdd(differ, 1);
}

__global__ void nothing() {}

int main(int argc, char **argv) {
    const unsigned percent = argc > 2 ? atoi(argv[2]) : 0;
    const double line = argc > 3 ? atof(argv[3]) * 1e3 : 1e5;
    const uint64_t pieces = words / piece;  // of a part
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
    for (uint64_t i = 0; i < parts; i++) fill<<<256, 256>>>(memory[i], i * pieces);
    CHECK(cudaDeviceSynchronize());
    printf("ready\n");
    for (uint64_t round = 0;; round++) {
        std::vector<double> took;
        const double begin = now();
        do {  // at least once, however late it is by now
            const double at = now();
            nothing<<<1, 1>>>();
            CHECK(cudaDeviceSynchronize());
            took.push_back(now() - at);
        } while (now() - begin < line);
        for (uint64_t i = 0; percent && i < parts; i++)
            change<<<pieces, 256>>>(memory[i], i * pieces, percent, round + 1);
        const uint64_t part = round % parts;
        compare<<<256, 256>>>(memory[part], part * pieces, percent, round + 1, differ);
        CHECK(cudaMemcpy(&n, differ, sizeof n, cudaMemcpyDeviceToHost));
        if (n) {
            fprintf(stderr, "state: %u words of part %zu are others\n", n, size_t(part));
            return 1;
        }
        printf("%.1f %.1f\n", median(took), *std::max_element(took.begin(), took.end()));
        fflush(stdout);
    }
}
