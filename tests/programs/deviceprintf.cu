// SPDX-License-Identifier: Apache-2.0
// Prints from kernels. Threads take turns, so that the order is the same every time.
#include "check.h"

__device__ const char word[] = "device";

__global__ void greet(int launch) {
    for (int t = 0; t < blockDim.x; t++) {
        if (t == threadIdx.x) printf("launch %d, thread %d of %d\n", launch, t, blockDim.x);
        __syncthreads();
    }
}

__global__ void formats(const char *passed) {
    printf("[%d] [%5d] [%-5d] [%05d] [%+d] [%i]\n", -42, 42, 42, 42, 42, 7);
    printf("[%u] [%x] [%X] [%#x] [%o]\n", 4000000000u, 0xbeefu, 0xbeefu, 255u, 8u);
    printf("[%lld] [%llu] [%llx] [%ld] [%lu]\n", -(1ll << 40), 1ull << 63, 0xfeedfacecafeull,
           123456789012l, 1ul << 40);
    printf("[%f] [%.3f] [%8.2f] [%e] [%.2E] [%g] [%G] [%a]\n", 1.5, 3.14159f, 2.718, 12345.678,
           1e-9, 0.0001, 1e20, 1.0);
    printf("[%s] [%10s] [%-8s] [%.3s] [%c%c] [%%]\n", word, "right", "left", "cut off", 'o', 'k');
    printf("[%*d]\n", 6, 12);
    printf("[%s]\n", passed);
    printf("plain text without arguments\n");
    int taken = printf("%d %d\n", 1, 2);
    printf("printf returned %d\n", taken);
}

__global__ void branch() {
    if (threadIdx.x == 3) printf("thread 3 only\n");
}

int main() {
    char *passed;
    CHECK(cudaMalloc(&passed, 16));
    CHECK(cudaMemcpy(passed, "from the host", 14, cudaMemcpyHostToDevice));
    printf("before\n");
    fflush(stdout);
    greet<<<1, 4>>>(0);
    greet<<<1, 3>>>(1);
    CHECK(cudaDeviceSynchronize());
    printf("between\n");
    fflush(stdout);
    formats<<<1, 1>>>(passed);
    branch<<<1, 64>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    printf("after\n");
    size_t fifo;
    CHECK(cudaDeviceGetLimit(&fifo, cudaLimitPrintfFifoSize));
    REQUIRE(fifo >= 4096);
    CHECK(cudaFree(passed));
}
