// SPDX-License-Identifier: Apache-2.0
// Memory of the program's that kernels reach in place.
#pragma once
#include "check.h"
#include <cstring>
#include <sys/mman.h>

const size_t page = 4096;

__global__ void addOne(unsigned char *p, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i]++;
}

static unsigned char *map(size_t bytes, void *at = nullptr) {
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    REQUIRE(p != MAP_FAILED);
    return (unsigned char *)p;
}

// A kernel changes all of the memory in place, and it is copied there and back.
static void use(unsigned char *p, size_t n) {
    unsigned char *dev;
    CHECK(cudaMalloc(&dev, n));
    memset(p, 40, n);
    addOne<<<4, 64>>>(p, n);
    CHECK(cudaMemcpyAsync(dev, p, n, cudaMemcpyHostToDevice));
    addOne<<<4, 64>>>(dev, n);
    CHECK(cudaMemcpyAsync(p, dev, n, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < n; i++) REQUIRE(p[i] == 42);
    CHECK(cudaFree(dev));
}
