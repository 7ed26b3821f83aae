// SPDX-License-Identifier: Apache-2.0
// Computes on two GPUs, as many rounds as the argument says, 0 for no end but that of the second
// GPU: when it is gone, what it was asked for fails, it gets no new context, and the other one goes
// on.
#include "versions.h"
#include <unistd.h>

static __global__ void add(unsigned *p) { *p += 1; }

static unsigned *memory[2];

// round adds one on a GPU, and looks at the sum.
static cudaError_t round(int gpu, unsigned *sum) {
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) {
        add<<<1, 1>>>(memory[gpu]);
        e = cudaGetLastError();
    }
    if (e == cudaSuccess) e = cudaDeviceSynchronize();
    if (e == cudaSuccess) e = cudaMemcpy(sum, memory[gpu], 4, cudaMemcpyDeviceToHost);
    return e;
}

static void afterwards(unsigned from) {
    unsigned sum;
    CUcontext c;
    auto create = get<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate", 3020);
    REPORT(round(1, &sum));
    REPORT(cudaMemcpy(&sum, memory[1], 4, cudaMemcpyDeviceToHost));
    REPORTCU(create(&c, 0, 1));
    CHECK(cudaSetDevice(0));
    cudaDeviceSynchronize(); // takes what is left of a delayed launch on the other GPU
    cudaGetLastError();
    for (int i = 0; i < 50; i++) CHECK(round(0, &sum));
    printf("GPU 0 has gone on: %s\n", sum == from + 50 ? "yes" : "no");
    CHECK(cudaFree(memory[0]));
}

int main(int, char **argv) {
    const unsigned rounds = atoi(argv[1]);
    for (int gpu = 0; gpu < 2; gpu++) {
        CHECK(cudaSetDevice(gpu));
        CHECK(cudaMalloc(&memory[gpu], 4));
        CHECK(cudaMemset(memory[gpu], 0, 4));
    }
    unsigned i, sum;
    for (i = 0; i < rounds || !rounds; i++) {
        CHECK(round(0, &sum));
        REQUIRE(sum == i + 1);
        cudaError_t e = round(1, &sum);
        if (e != cudaSuccess) {
            printf("GPU 1: %s\n", cudaGetErrorName(e));
            afterwards(i + 1);
            return 0;
        }
        REQUIRE(sum == i + 1);
        if (i == 0) puts("both compute"), fflush(stdout);
        if (!rounds) usleep(1000);
    }
    printf("%u rounds\n", i);
}
