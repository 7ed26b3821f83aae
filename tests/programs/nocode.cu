// SPDX-License-Identifier: Apache-2.0
// A program without code for the GPU that it finds (built for sm_75 alone; a GPU of compute
// capability 7.5 would run it).
#include "check.h"

__global__ void kernel(int *p) { *p = 1; }

int main() {
    int value = 7, *p;
    REPORT(cudaMalloc(&p, sizeof *p));
    REPORT(cudaMemcpy(p, &value, sizeof value, cudaMemcpyHostToDevice));
    kernel<<<1, 1>>>(p);
    REPORT(cudaGetLastError());
    REPORT(cudaDeviceSynchronize());
    value = 0;
    REPORT(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost));
    REQUIRE(value == 7);
    REPORT(cudaFree(p));
    return 0;
}
