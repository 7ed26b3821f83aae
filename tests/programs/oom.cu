// SPDX-License-Identifier: Apache-2.0
// Runs out of device memory in several ways; what was freed can be had again.
#include "check.h"
#include <vector>

__global__ void mark(int *p) { *p = 4711; }

int main() {
    size_t free, total;
    CHECK(cudaMemGetInfo(&free, &total));
    REQUIRE(free > 0 && free <= total);
    void *p = nullptr;
    REPORT(cudaMalloc(&p, total + (size_t(1) << 30)));
    REPORT(cudaGetLastError());
    REPORT(cudaGetLastError());
    REPORT(cudaMalloc(&p, size_t(1) << 50));
    REPORT(cudaMalloc(&p, ~size_t(0)));
    REPORT(cudaMalloc(&p, 0));
    REQUIRE(p == nullptr);
    REPORT(cudaFree(nullptr));

    std::vector<void *> pieces;
    cudaError_t e;
    while ((e = cudaMalloc(&p, total / 8)) == cudaSuccess && pieces.size() < 100)
        pieces.push_back(p);
    printf("filling the memory: %s (%d), enough pieces: %s\n", cudaGetErrorName(e), int(e),
           pieces.size() >= 5 && pieces.size() <= 8 ? "yes" : "no");
    for (void *piece : pieces) CHECK(cudaFree(piece));
    REPORT(cudaPeekAtLastError());
    REPORT(cudaGetLastError());

    int *word, got = 0;
    CHECK(cudaMalloc(&p, total / 2));
    CHECK(cudaFree(p));
    CHECK(cudaMalloc(&word, sizeof *word));
    mark<<<1, 1>>>(word);
    CHECK(cudaMemcpy(&got, word, sizeof got, cudaMemcpyDeviceToHost));
    printf("after that: %d\n", got);
    REPORT(cudaFree(word));
    REPORT(cudaFree((void *)0x12345678));
}
