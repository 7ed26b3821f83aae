// SPDX-License-Identifier: Apache-2.0
// What the programs about graphs share: buffers with guards, kernels, and what the kernels compute.
#pragma once
#include "driver.h"
#include <cstring>
#include <vector>

const unsigned n = 3000, guard = 16, replays = 12;
static Random rnd = {2024};

static __global__ void mix(unsigned *out, const unsigned *in, unsigned n, unsigned key) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (in[i] ^ key) * 1664525u + i;
}

static __global__ void join(unsigned *out, const unsigned *a, const unsigned *b, unsigned n,
                            unsigned key) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * 3 + b[i] * 5 + key;
}

static const dim3 grid((n + 127) / 128), block(128);

inline unsigned mixed(unsigned v, unsigned key, unsigned i) { return (v ^ key) * 1664525u + i; }
inline unsigned joined(unsigned a, unsigned b, unsigned key) { return a * 3 + b * 5 + key; }

// Host memory with guards at both ends.
struct Host {
    unsigned *all, *data;
    bool pinned;
    explicit Host(bool pinned) : pinned(pinned) {
        size_t size = (n + 2 * guard) * sizeof(unsigned);
        if (pinned) CHECK(cudaMallocHost(&all, size));
        else all = (unsigned *)malloc(size);
        for (unsigned i = 0; i < n + 2 * guard; i++) all[i] = 0xdeadbeefu;
        data = all + guard;
    }
    ~Host() {
        guards();
        if (pinned) CHECK(cudaFreeHost(all));
        else free(all);
    }
    void guards() const {
        for (unsigned i = 0; i < guard; i++)
            REQUIRE(all[i] == 0xdeadbeefu && data[n + i] == 0xdeadbeefu);
    }
    void fill() {
        for (unsigned i = 0; i < n; i++) data[i] = rnd.next();
    }
};

// The same in device memory.
struct Device {
    unsigned *all, *data;
    Device() {
        CHECK(cudaMalloc(&all, (n + 2 * guard) * sizeof(unsigned)));
        CHECK(cudaMemset(all, 0x5a, (n + 2 * guard) * sizeof(unsigned)));
        CHECK(cudaDeviceSynchronize());
        data = all + guard;
    }
    ~Device() {
        unsigned ends[2 * guard];
        CHECK(cudaMemcpy(ends, all, sizeof ends / 2, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(ends + guard, data + n, sizeof ends / 2, cudaMemcpyDeviceToHost));
        for (unsigned v : ends) REQUIRE(v == 0x5a5a5a5au);
        CHECK(cudaFree(all));
    }
};

const size_t bytes = n * sizeof(unsigned);

inline cudaGraphExec_t instantiate(cudaGraph_t g, unsigned long long flags = 0) {
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiateWithFlags(&e, g, flags));
    return e;
}

inline void launch(cudaGraphExec_t e, cudaStream_t s) {
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
}

inline size_t count(cudaGraph_t g) {
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(g, nullptr, &nodes));
    return nodes;
}

inline cudaKernelNodeParams kernel(void *f, void **args) {
    cudaKernelNodeParams p = {};
    p.func = f;
    p.gridDim = grid;
    p.blockDim = block;
    p.kernelParams = args;
    return p;
}

inline cudaMemsetParams fillOf(unsigned *dst, unsigned value) {
    cudaMemsetParams p = {};
    p.dst = dst;
    p.value = value;
    p.elementSize = sizeof(unsigned);
    p.width = n;
    p.height = 1;
    return p;
}
