// SPDX-License-Identifier: Apache-2.0
// Atomic operations of every kind and width, in global and in shared memory.
#include "check.h"

struct Cells {
    int add, sub, min, max, exch, casSum;
    unsigned inc, dec, bitAnd, bitOr, bitXor, umin;
    unsigned long long add64, max64, xor64, cas64;
    long long smin64;
    float addFloat;
    double addDouble;
};

__device__ void all(Cells *c, int i) {
    atomicAdd(&c->add, i);
    atomicSub(&c->sub, 2);
    atomicMin(&c->min, -i);
    atomicMax(&c->max, i * 3);
    atomicExch(&c->exch, 77);
    atomicInc(&c->inc, 99);
    atomicDec(&c->dec, 99);
    atomicAnd(&c->bitAnd, ~(1u << i % 7));
    atomicOr(&c->bitOr, 1u << i % 20);
    atomicXor(&c->bitXor, 1u << i % 3);
    atomicMin(&c->umin, 0xf0000000u + i);
    atomicAdd(&c->add64, 1ull << 33);
    atomicMax(&c->max64, (unsigned long long)i << 40);
    atomicXor(&c->xor64, 1ull << i % 61);
    atomicMin(&c->smin64, -((long long)i << 35));
    atomicAdd(&c->addFloat, 0.5f);
    atomicAdd(&c->addDouble, 0.25);
    for (int seen = c->casSum, old;; seen = old)
        if ((old = atomicCAS(&c->casSum, seen, seen + 5)) == seen) break;
    for (unsigned long long seen = c->cas64, old;; seen = old)
        if ((old = atomicCAS(&c->cas64, seen, seen + (1ull << 32) + 1)) == seen) break;
}

__device__ void start(Cells *c) {
    *c = Cells{};
    c->bitAnd = c->umin = ~0u;
}

__global__ void global(Cells *c) { all(c, blockIdx.x * blockDim.x + threadIdx.x); }
__global__ void reset(Cells *c) { start(c); }

__global__ void shared(Cells *out) {
    __shared__ Cells c;
    if (threadIdx.x == 0) start(&c);
    __syncthreads();
    all(&c, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) *out = c;
}

// Each thread must get a ticket of its own, so the values that atomics return add up.
__global__ void tickets(unsigned *next, unsigned long long *sum) {
    atomicAdd(sum, (unsigned long long)atomicAdd(next, 1));
    atomicAdd_system(next, 0);
    atomicAdd_block(next, 0);
}

static void print(const char *what, const Cells &c) {
    printf("%s: %d %d %d %d %d %d\n", what, c.add, c.sub, c.min, c.max, c.exch, c.casSum);
    printf("  %u %u %x %x %x %x\n", c.inc, c.dec, c.bitAnd, c.bitOr, c.bitXor, c.umin);
    printf("  %llx %llx %llx %llx %lld\n", c.add64, c.max64, c.xor64, c.cas64, c.smin64);
    printf("  %.2f %.2f\n", c.addFloat, c.addDouble);
}

int main() {
    Cells *dev, c;
    CHECK(cudaMalloc(&dev, sizeof *dev));
    reset<<<1, 1>>>(dev);
    global<<<10, 100>>>(dev);
    CHECK(cudaMemcpy(&c, dev, sizeof c, cudaMemcpyDeviceToHost));
    print("global", c);
    REQUIRE(c.add == 499500 && c.sub == -2000 && c.min == -999 && c.max == 2997);
    REQUIRE(c.casSum == 5000 && c.inc == 0 && c.dec == 0 && c.add64 == 1000ull << 33);
    REQUIRE(c.addFloat == 500 && c.addDouble == 250 && c.cas64 == (1000ull << 32) + 1000);
    shared<<<1, 150>>>(dev);
    CHECK(cudaMemcpy(&c, dev, sizeof c, cudaMemcpyDeviceToHost));
    print("shared", c);
    REQUIRE(c.add == 11175 && c.inc == 50 && c.casSum == 750 && c.addDouble == 37.5);

    unsigned long long *cells, sum;
    CHECK(cudaMalloc(&cells, 2 * sizeof *cells));
    CHECK(cudaMemset(cells, 0, 2 * sizeof *cells));
    tickets<<<50, 64>>>((unsigned *)cells, cells + 1);
    CHECK(cudaMemcpy(&sum, cells + 1, sizeof sum, cudaMemcpyDeviceToHost));
    printf("tickets: %llu\n", sum);
    REQUIRE(sum == 3200ull * 3199 / 2);
}
