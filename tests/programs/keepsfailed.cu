// SPDX-License-Identifier: Apache-2.0
// A context that has failed stays so: a kernel writes where nothing is, and from then on every call
// returns that error, round after round: as many as the argument says, 0 for no end.
#include "check.h"

static __global__ void write(uint32_t *p) { *p = 1; }

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    uint32_t *p;
    CHECK(cudaMalloc(&p, 4096));
    write<<<1, 1>>>(reinterpret_cast<uint32_t *>(64));
    const cudaError_t e = cudaDeviceSynchronize();
    REQUIRE(e == cudaErrorIllegalAddress);
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        uint32_t word;
        REQUIRE(cudaMemcpy(&word, p, sizeof word, cudaMemcpyDeviceToHost) == e);
        REQUIRE(cudaDeviceSynchronize() == e);
        write<<<1, 1>>>(p);
        REQUIRE(cudaGetLastError() == e);
        REQUIRE(cudaFree(p) == e);
    }
    printf("%d rounds of %s\n", i, cudaGetErrorName(e));
    return 0;
}
