// SPDX-License-Identifier: Apache-2.0
// Memory of two GPUs, and copies between them, which work whether or not the GPUs may reach each
// other.
#pragma once
#include "driver.h"

static const int N = 1 << 20;

static __global__ void fill(int *to, int from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from + i;
}

static __global__ void addOne(int *at) { *at += 1; }

static int *on(int device, size_t bytes) {
    int *p;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&p, bytes));
    return p;
}

static void is(const int *device, int n, int from, const char *what) {
    int *host = (int *)malloc(n * sizeof(int)), wrong = 0;
    CHECK(cudaMemcpy(host, device, n * sizeof(int), cudaMemcpyDefault));
    for (int i = 0; i < n; i++) wrong += host[i] != from + i;
    printf("%s: %d wrong\n", what, wrong);
    free(host);
}

// Clears memory of GPU 1, which alone may do so without access.
static void clear(int *p) {
    int device;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMemset(p, 0, N * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(device));
}

// All ways to copy from GPU 0 to GPU 1.
static void copies(int *a, int *b, const char *access) {
    cudaStream_t s;
    printf("copies, %s:\n", access);
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreate(&s));
    fill<<<N / 256, 256>>>(a, 1);
    clear(b);
    CHECK(cudaMemcpyPeer(b, 1, a, 0, N * sizeof(int)));
    is(b, N, 1, "peer");
    fill<<<N / 256, 256, 0, s>>>(a, 2);
    CHECK(cudaMemcpyPeerAsync(b, 1, a, 0, N * sizeof(int), s));
    CHECK(cudaStreamSynchronize(s));
    is(b, N, 2, "in a stream");
    fill<<<N / 256, 256, 0, s>>>(a, 3);
    CHECK(cudaMemcpyAsync(b, a, N * sizeof(int), cudaMemcpyDeviceToDevice, s));
    CHECK(cudaStreamSynchronize(s));
    is(b, N, 3, "device to device");
    CHECK(cudaSetDevice(1));
    CHECK(cudaMemcpy(b + 1024, a + 512, 2048, cudaMemcpyDefault));
    is(b + 1024, 512, 3 + 512, "some of it, from the other side");

    cudaMemcpy3DPeerParms p = {};
    p.srcPtr = make_cudaPitchedPtr(a, 4096, 1024, 4);
    p.dstPtr = make_cudaPitchedPtr(b, 4096, 1024, 4);
    p.srcDevice = 0;
    p.dstDevice = 1;
    p.extent = make_cudaExtent(2048, 3, 2);
    CHECK(cudaSetDevice(0));
    fill<<<N / 256, 256>>>(a, 4);
    CHECK(cudaDeviceSynchronize());
    clear(b);
    CHECK(cudaMemcpy3DPeer(&p));
    CHECK(cudaDeviceSynchronize());
    is(b, 512, 4, "box, first row");
    is(b + 6 * 1024, 512, 4 + 6 * 1024, "box, last row");
    clear(b);
    CHECK(cudaMemcpy2DAsync(b, 4096, a, 4096, 400, 5, cudaMemcpyDeviceToDevice, s));
    CHECK(cudaStreamSynchronize(s));
    is(b + 4 * 1024, 100, 4 + 4 * 1024, "rows");
    CHECK(cudaStreamDestroy(s));
}
