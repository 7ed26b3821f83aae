// SPDX-License-Identifier: Apache-2.0
// A kernel that goes wrong kills its context: the error shows at the next synchronization and at
// every call after it.
#include "check.h"
#include <cstring>

__global__ void store(int *p) { *p = 1; }
__global__ void load(const int *p, int *out) { *out = *p; }
__global__ void trap(int *p) {
    if (threadIdx.x == 5) asm volatile("trap;");
    *p = 1;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "global";
    int *good, value = 0;
    void *p;
    cudaStream_t stream;
    cudaEvent_t event;
    size_t free, total;
    CHECK(cudaMalloc(&good, 4096));
    CHECK(cudaMemset(good, 0, 4096));
    if (!strcmp(how, "global")) store<<<1, 1>>>((int *)0x10);
    if (!strcmp(how, "null")) load<<<1, 32>>>(nullptr, good);
    if (!strcmp(how, "far")) store<<<1, 1>>>((int *)0x7000000000001000);
    if (!strcmp(how, "misaligned")) store<<<1, 1>>>((int *)((char *)good + 2));
    if (!strcmp(how, "trap")) trap<<<1, 32>>>(good);
    printf("%s:\n", how);
    REPORT(cudaGetLastError());
    REPORT(cudaDeviceSynchronize());
    REPORT(cudaGetLastError());
    REPORT(cudaPeekAtLastError());
    REPORT(cudaMalloc(&p, 4096));
    REPORT(cudaMemcpy(&value, good, sizeof value, cudaMemcpyDeviceToHost));
    REPORT(cudaMemcpy(good, &value, sizeof value, cudaMemcpyHostToDevice));
    REPORT(cudaMemset(good, 1, 16));
    REPORT(cudaStreamCreate(&stream));
    REPORT(cudaEventCreate(&event));
    REPORT(cudaMemGetInfo(&free, &total));
    store<<<1, 1>>>(good);
    REPORT(cudaGetLastError());
    REPORT(cudaFree(good));
    REPORT(cudaDeviceSynchronize());
}
