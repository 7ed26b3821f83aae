// SPDX-License-Identifier: Apache-2.0
// Launches that can't be: each is refused with its own error, none sticks, and a good one follows.
#include "check.h"

__global__ void count(int *p) { atomicAdd(p, 1); }
__global__ void __launch_bounds__(64) bounded(int *p) { atomicAdd(p, 1); }
__global__ void big(int *p) {
    __shared__ int cells[8192];
    cells[threadIdx.x] = threadIdx.x;
    __syncthreads();
    atomicAdd(p, cells[(threadIdx.x + 1) % blockDim.x] >= 0);
}

static int *counter;

#define TRY(what, kernel, ...)                                                     \
    do {                                                                           \
        kernel<<<__VA_ARGS__>>>(counter);                                          \
        cudaError_t launch = cudaGetLastError(), sync = cudaDeviceSynchronize();   \
        printf("%-28s %s (%d), then %s (%d)\n", what, cudaGetErrorName(launch),    \
               int(launch), cudaGetErrorName(sync), int(sync));                    \
    } while (0)

int main() {
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    CHECK(cudaMalloc(&counter, sizeof *counter));
    CHECK(cudaMemset(counter, 0, sizeof *counter));
    TRY("no blocks", count, 0, 32);
    TRY("no threads", count, 1, 0);
    TRY("2048 threads", count, 1, 2048);
    TRY("32 x 33 threads", count, 1, dim3(32, 33));
    TRY("65 threads deep", count, 1, dim3(1, 1, 65));
    TRY("70000 blocks high", count, dim3(1, 70000), 1);
    TRY("beyond its launch bounds", bounded, 1, 128);
    TRY("49 KiB of shared memory", count, 1, 32, 49 * 1024);
    TRY("1 MiB of shared memory", count, 1, 32, 1024 * 1024);
    TRY("static plus dynamic", big, 1, 32, 32 * 1024);
    REPORT(cudaFuncSetAttribute(count, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024 * 1024));
    REPORT(cudaFuncSetAttribute(count, cudaFuncAttributeMaxDynamicSharedMemorySize, 49 * 1024));
    REPORT(cudaGetLastError());
    TRY("49 KiB once allowed", count, 1, 32, 49 * 1024);
    TRY("as many threads as may be", count, 2, prop.maxThreadsPerBlock);
    int got;
    CHECK(cudaMemcpy(&got, counter, sizeof got, cudaMemcpyDeviceToHost));
    REQUIRE(got == 32 + 2 * prop.maxThreadsPerBlock);
    REPORT(cudaLaunchKernel((const void *)main, dim3(1), dim3(1), nullptr, 0, 0));
    REPORT(cudaGetLastError());
    REPORT(cudaSetDevice(99));
    REPORT(cudaGetLastError());
    CHECK(cudaFree(counter));
}
