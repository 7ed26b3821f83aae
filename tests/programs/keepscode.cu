// SPDX-License-Identifier: Apache-2.0
// Code with variables that are used round after round: as many as the argument says, 0 for no end.
// They have initial content, of which some is addresses of others, and tables of virtual functions;
// memory has pointers to them, and to a text. All are compared each round.
#include "check.h"
#include <cstdint>
#include <cstring>
#include <new>

const int words = 64;

__device__ uint32_t plain[words];
__device__ uint32_t filled[words] = {3, 1, 4, 1, 5};
__device__ uint32_t *inside = &filled[2];
static __device__ uint64_t hidden = 1ull << 40;
__constant__ uint32_t table[4] = {10, 20, 30, 40};

struct Shape {
    __device__ virtual uint32_t area(uint32_t n) const = 0;
};
struct Square : Shape {
    __device__ uint32_t area(uint32_t n) const override { return n * n + plain[0]; }
};
struct Twice : Shape {
    __device__ uint32_t area(uint32_t n) const override { return 2 * n; }
};

// Kept is in memory that kernels find again.
struct Kept {
    uint32_t *variable;
    const char *text;
    uint64_t shape[2][2]; // objects with a table
};

__global__ void make(Kept *kept) {
    kept->variable = &plain[1];
    kept->text = "a text in the code";
    new (kept->shape[0]) Square;
    new (kept->shape[1]) Twice;
}

__global__ void step(uint32_t round) {
    plain[threadIdx.x] = plain[threadIdx.x] * 1664525u + round + threadIdx.x;
    filled[threadIdx.x] += table[round & 3];
}

__global__ void look(uint32_t *out, Kept *kept, uint32_t n) {
    out[0] = *kept->variable;
    out[1] = kept->text[n % 18];
    out[2] = reinterpret_cast<Shape *>(kept->shape[n & 1])->area(n);
    out[3] = *inside;
    hidden += n;
    out[4] = uint32_t(hidden);
}

__global__ void say(int rounds) { printf("%d rounds of code's variables\n", rounds); }

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    const char text[] = "a text in the code";
    uint32_t want[words] = {}, full[words] = {3, 1, 4, 1, 5}, has[words], out[5], *memory;
    uint64_t sum = 1ull << 40;
    Kept *kept;
    CHECK(cudaMalloc(&memory, sizeof out));
    CHECK(cudaMalloc(&kept, sizeof *kept));
    make<<<1, 1>>>(kept);
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        step<<<1, words>>>(i);
        look<<<1, 1>>>(memory, kept, i);
        for (int k = 0; k < words; k++) {
            want[k] = want[k] * 1664525u + i + k;
            full[k] += 10 * ((i & 3) + 1);
        }
        sum += i;
        CHECK(cudaMemcpy(out, memory, sizeof out, cudaMemcpyDeviceToHost));
        REQUIRE(out[0] == want[1] && out[1] == uint32_t(text[i % 18]) && out[3] == full[2]);
        REQUIRE(out[2] == (i & 1 ? 2u * i : uint32_t(i) * i + want[0]) && out[4] == uint32_t(sum));
        CHECK(cudaMemcpyFromSymbol(has, plain, sizeof has));
        REQUIRE(!memcmp(has, want, sizeof has));
        CHECK(cudaMemcpyFromSymbol(has, filled, sizeof has));
        REQUIRE(!memcmp(has, full, sizeof has));
    }
    say<<<1, 1>>>(i);
    CHECK(cudaDeviceSynchronize());
}
