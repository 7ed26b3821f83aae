// SPDX-License-Identifier: Apache-2.0
// Memory that keeps what kernels compute in it, round after round: as many as the argument says, 0
// for no end. Allocations of all sizes have some words of it, at their beginning, their middle and
// their end.
#include "check.h"
#include <cstdint>
#include <vector>

const int words = 64;

struct Place {
    uint32_t *at; // of so many words
};

__global__ void step(uint32_t *p, uint32_t round) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + round + threadIdx.x;
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    const size_t sizes[] = {4096, 100000, 3 << 20, 9 << 20, 20 << 20};
    std::vector<Place> places;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (size_t size : sizes) {
        char *p;
        CHECK(cudaMalloc(&p, size));
        CHECK(cudaMemset(p, 0, size));
        for (size_t at : {size_t(0), size / 2 & ~size_t(255), (size - words * 4) & ~size_t(255)})
            places.push_back({reinterpret_cast<uint32_t *>(p + at)});
    }
    void *pooled;
    CHECK(cudaMallocAsync(&pooled, 1 << 20, stream));
    CHECK(cudaMemsetAsync(pooled, 0, 1 << 20, stream));
    CHECK(cudaStreamSynchronize(stream));
    places.push_back({static_cast<uint32_t *>(pooled)});
    uint32_t want[words] = {}, has[words];
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        for (const Place &p : places) {
            step<<<1, words, 0, stream>>>(p.at, i);
            CHECK(cudaGetLastError());
        }
        for (int k = 0; k < words; k++) want[k] = want[k] * 1664525u + i + k;
        const Place &p = places[i % places.size()];
        CHECK(cudaMemcpyAsync(has, p.at, sizeof has, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int k = 0; k < words; k++) REQUIRE(has[k] == want[k]);
    }
    printf("%d rounds in %zu places\n", i, places.size());
}
