// SPDX-License-Identifier: Apache-2.0
// A failing assert names file, line, function, block and thread, and ends the context.
#include "check.h"
#include <cassert>

__global__ void verify(const int *data, int limit) {
    assert(data[blockIdx.x * blockDim.x + threadIdx.x] < limit);
}

int main() {
    int host[64], *dev;
    for (int i = 0; i < 64; i++) host[i] = i == 45 ? 1000 : i;
    CHECK(cudaMalloc(&dev, sizeof host));
    CHECK(cudaMemcpy(dev, host, sizeof host, cudaMemcpyHostToDevice));
    verify<<<2, 32>>>(dev, 1001);
    REPORT(cudaDeviceSynchronize());
    verify<<<2, 32>>>(dev, 1000);
    REPORT(cudaGetLastError());
    REPORT(cudaDeviceSynchronize());
    REPORT(cudaGetLastError());
    REPORT(cudaFree(dev));
}
