// SPDX-License-Identifier: Apache-2.0
// What a stream was waited for has happened: copies to pinned memory, queued in numbers, don't come
// after the wait is over.
#include "check.h"

static const size_t words = size_t(1) << 18;

__global__ void fill(unsigned long long *to, size_t n, unsigned long long seed) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        to[i] = seed * 0x9e3779b97f4a7c15ull + i;
}

int main() {
    unsigned long long *host, *back, *device, seed = 1;
    const size_t bytes = words * sizeof *host;
    unsigned wrong = 0;
    CHECK(cudaHostAlloc((void **)&host, bytes, cudaHostAllocDefault));
    CHECK(cudaHostAlloc((void **)&back, bytes, cudaHostAllocDefault));
    CHECK(cudaMalloc(&device, bytes));
    for (int round = 0; round < 20; round++) {
        fill<<<64, 256>>>(device, words, ++seed);
        for (int burst = 0; burst < 3; burst++) {
            for (int i = 0; i < 8; i++)
                CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, 0));
            CHECK(cudaStreamSynchronize(0));
            CHECK(cudaStreamQuery(0));
        }
        for (size_t i = 0; i < words; i++) host[i] = seed ^ i;
        CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, 0));
        CHECK(cudaMemcpyAsync(back, device, bytes, cudaMemcpyDeviceToHost, 0));
        CHECK(cudaDeviceSynchronize());
        for (size_t i = 0; i < words; i++)
            if (host[i] != (seed ^ i) || back[i] != (seed ^ i)) {
                wrong++;
                break;
            }
    }
    printf("%u of 20 rounds wrong\n", wrong);
    return 0;
}
