// SPDX-License-Identifier: Apache-2.0
// Rounds of small copies and launches, with a pause before each answer: as many as the argument
// says, 0 for no end.
#include "check.h"
#include <cstring>
#include <unistd.h>

const int each = 20, n = 256;

__global__ void mix(unsigned *p, unsigned key) { p[threadIdx.x] = p[threadIdx.x] * 69069u + key; }

int main(int, char **argv) {
    int rounds = atoi(argv[1]), i;
    unsigned *dev, host[n], want;
    CHECK(cudaMalloc(&dev, sizeof host));
    for (i = 0; i < rounds || !rounds; i++) {
        for (unsigned &x : host) x = want = i;
        CHECK(cudaMemcpyAsync(dev, host, sizeof host, cudaMemcpyHostToDevice, 0));
        memset(host, 0, sizeof host);
        for (int k = 0; k < each; k++) {
            mix<<<1, n>>>(dev, k);
            CHECK(cudaGetLastError());
            want = want * 69069u + k;
        }
        usleep(2000);
        CHECK(cudaMemcpy(host, dev, sizeof host, cudaMemcpyDeviceToHost));
        for (unsigned x : host) REQUIRE(x == want);
    }
    printf("%d rounds of %d launches\n", i, each);
}
