// SPDX-License-Identifier: Apache-2.0
// A GPU that is reset every eight rounds, of which there are as many as the argument says, 0 for no
// end. A kernel computes in a stream whose attributes were copied from another one. What it
// computes is compared, and so are the attributes and a limit.
#include "check.h"

static const unsigned words = 256;

static __global__ void step(uint32_t *p, uint32_t add) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + add + threadIdx.x;
}

// Life is what a context has until it ends.
struct Life {
    uint32_t *at;
    uint32_t want[words] = {};
    cudaStream_t first, second;
    size_t stack;

    explicit Life(int number) : stack(2048 + 1024 * (number % 3)) {
        cudaStreamAttrValue v = {};
        v.syncPolicy = cudaSyncPolicySpin;
        CHECK(cudaDeviceSetLimit(cudaLimitStackSize, stack));
        CHECK(cudaMalloc(&at, sizeof want));
        CHECK(cudaMemset(at, 0, sizeof want));
        CHECK(cudaStreamCreate(&first));
        CHECK(cudaStreamCreate(&second));
        CHECK(cudaStreamSetAttribute(first, cudaStreamAttributeSynchronizationPolicy, &v));
        CHECK(cudaStreamCopyAttributes(second, first));
    }
    void take(uint32_t add) {
        step<<<1, words, 0, second>>>(at, add);
        CHECK(cudaGetLastError());
        for (unsigned k = 0; k < words; k++) want[k] = want[k] * 1664525u + add + k;
    }
    void compare() const {
        uint32_t has[words];
        size_t bytes;
        cudaStreamAttrValue v = {};
        CHECK(cudaMemcpyAsync(has, at, sizeof has, cudaMemcpyDeviceToHost, second));
        CHECK(cudaStreamSynchronize(second));
        REQUIRE(memcmp(has, want, sizeof want) == 0);
        CHECK(cudaStreamGetAttribute(second, cudaStreamAttributeSynchronizationPolicy, &v));
        REQUIRE(v.syncPolicy == cudaSyncPolicySpin);
        CHECK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
        REQUIRE(bytes >= stack);
    }
};

int main(int, char **argv) {
    const int rounds = atoi(argv[1]), each = 8;
    int i = 0;
    for (int number = 0; i < rounds || !rounds; number++) {
        Life life(number);
        for (int end = i + each; i < end; i++) {
            life.take(i);
            life.compare();
        }
        CHECK(cudaDeviceReset());
    }
    printf("%d rounds on a GPU that is reset\n", i);
    return 0;
}
