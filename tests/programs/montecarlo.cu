// SPDX-License-Identifier: Apache-2.0
// Estimates pi by throwing darts, with a generator of its own in every thread. The CPU throws the
// same darts: the square's rounding is fixed by an explicit fused multiply-add.
#include "check.h"
#include <cmath>

const int threads = 128, blocks = 64, darts = 32;

__host__ __device__ bool inside(Random &random) {
    float x = (random.next() >> 8) * 0x1p-24f, y = (random.next() >> 8) * 0x1p-24f;
    return fmaf(x, x, y * y) <= 1;
}

__global__ void throwDarts(unsigned *hits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Random random{uint64_t(i) << 32 | 12345};
    unsigned mine = 0;
    for (int k = 0; k < darts; k++) mine += inside(random);
    atomicAdd(hits, mine);
}

int main() {
    unsigned *dhits, hits, want = 0;
    CHECK(cudaMalloc(&dhits, sizeof hits));
    CHECK(cudaMemset(dhits, 0, sizeof hits));
    throwDarts<<<blocks, threads>>>(dhits);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&hits, dhits, sizeof hits, cudaMemcpyDeviceToHost));

    for (int i = 0; i < threads * blocks; i++) {
        Random random{uint64_t(i) << 32 | 12345};
        for (int k = 0; k < darts; k++) want += inside(random);
    }
    const int all = threads * blocks * darts;
    printf("%u of %d darts inside: pi is about %.4f\n", hits, all, 4.0 * hits / all);
    REQUIRE(hits == want);
    REQUIRE(fabs(4.0 * hits / all - M_PI) < 0.01);
    CHECK(cudaFree(dhits));
}
