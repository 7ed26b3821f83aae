// SPDX-License-Identifier: Apache-2.0
// Constants that are written and read in each way, round after round: as many as the argument says,
// 0 for no end. Kernels must read what was written last, and so must copies. In some rounds a graph
// writes to a constant, which is gone before the round ends.
#include "check.h"
#include <cstdint>
#include <cstring>

const int words = 8192; // a part of the bank that no single launch can take as parameters

__constant__ uint32_t table[words];
__constant__ uint32_t first[4] = {10, 20, 30, 40}; // is never written to
__constant__ uint8_t key[13] = "initial text";
__constant__ uint32_t counter;

__global__ void look(uint32_t *out, uint32_t n) {
    uint32_t sum = 0;
    for (int i = threadIdx.x; i < words; i += blockDim.x) sum += table[i] * (i + 1);
    atomicAdd(&out[0], sum);
    if (threadIdx.x) return;
    out[1] = first[n & 3];
    out[2] = key[n % 13];
    out[3] = counter;
}

struct Oracle {
    uint32_t table[words] = {}, counter = 0;
    uint8_t key[13] = "initial text";
    uint32_t sum() const {
        uint32_t s = 0;
        for (int i = 0; i < words; i++) s += table[i] * (i + 1);
        return s;
    }
};

static cudaStream_t stream;
static uint32_t *buffer, *pinned, pageable[words];

// viaGraph writes n words behind the beginning, and the counter, by a graph that was captured, or
// by one that is made of nodes.
static void viaGraph(Oracle &o, int n, bool captured) {
    void *at, *place;
    cudaGraph_t g;
    cudaGraphExec_t e;
    CHECK(cudaGetSymbolAddress(&at, counter));
    CHECK(cudaGetSymbolAddress(&place, table));
    if (captured) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        CHECK(cudaMemcpyToSymbolAsync(table, pinned, 4 * n, 0, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemsetAsync(at, 0x11, 4, stream));
        CHECK(cudaStreamEndCapture(stream, &g));
    } else {
        cudaGraphNode_t copy, fill;
        cudaMemsetParams set = {};
        cudaMemcpy3DParms has = {};
        set.dst = at;
        set.value = 0x22;
        set.elementSize = 1;
        set.width = 4;
        set.height = 1;
        CHECK(cudaGraphCreate(&g, 0));
        CHECK(cudaGraphAddMemsetNode(&fill, g, nullptr, 0, &set));
        CHECK(cudaGraphAddMemcpyNode1D(&copy, g, &fill, 1, place, pinned, 4 * n,
                                       cudaMemcpyHostToDevice));
        CHECK(cudaGraphMemcpyNodeGetParams(copy, &has));
        REQUIRE(has.dstPtr.ptr == place);
        CHECK(cudaGraphMemsetNodeGetParams(fill, &set));
        REQUIRE(set.dst == at);
    }
    CHECK(cudaGraphInstantiate(&e, g, nullptr, nullptr, 0));
    CHECK(cudaGraphLaunch(e, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    memcpy(o.table, pinned, 4 * n);
    o.counter = captured ? 0x11111111 : 0x22222222;
}

// change writes to the constants in one of several ways.
static void change(Oracle &o, int round) {
    const int n = 1 + round * 37 % words, at = words - n, bytes = 4 * n;
    char *place;
    CHECK(cudaGetSymbolAddress(reinterpret_cast<void **>(&place), table));
    for (int i = 0; i < n; i++) pinned[i] = pageable[i] = round * 1664525u + i;
    switch (round % 8) {
    case 0:
        CHECK(cudaMemcpyToSymbol(table, pageable, bytes, 4 * at));
        memcpy(&o.table[at], pageable, bytes);
        return;
    case 1:
        CHECK(cudaMemcpyToSymbolAsync(table, pinned, bytes, 4 * at, cudaMemcpyHostToDevice,
                                      stream));
        CHECK(cudaStreamSynchronize(stream));
        memcpy(&o.table[at], pinned, bytes);
        return;
    case 2:
        CHECK(cudaMemcpyAsync(buffer, pinned, bytes, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyToSymbolAsync(table, buffer, bytes, 4 * at, cudaMemcpyDeviceToDevice,
                                      stream));
        CHECK(cudaStreamSynchronize(stream));
        memcpy(&o.table[at], pinned, bytes);
        return;
    case 3:
        CHECK(cudaMemset(place + 4 * at, round, bytes));
        memset(&o.table[at], round, bytes);
        return;
    case 4: // every second word
        CHECK(cudaMemcpy2D(place, 8, pageable, 4, 4, n / 2, cudaMemcpyHostToDevice));
        for (int i = 0; i < n / 2; i++) o.table[2 * i] = pageable[i];
        return;
    case 5:
        o.key[round % 12] = uint8_t(round);
        CHECK(cudaMemcpyToSymbol(key, o.key, sizeof o.key));
        CHECK(cudaMemcpyToSymbolAsync(counter, &round, 4, 0, cudaMemcpyHostToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        o.counter = round;
        return;
    default:
        viaGraph(o, n, round % 8 == 6);
    }
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    static Oracle o;
    static uint32_t has[words];
    uint32_t out[4], *memory;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&memory, sizeof out));
    CHECK(cudaMalloc(&buffer, 4 * words));
    CHECK(cudaMallocHost(&pinned, 4 * words));
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        change(o, i);
        CHECK(cudaMemset(memory, 0, sizeof out));
        look<<<1, 256>>>(memory, i);
        CHECK(cudaMemcpy(out, memory, sizeof out, cudaMemcpyDeviceToHost));
        REQUIRE(out[0] == o.sum() && out[1] == 10u * ((i & 3) + 1));
        REQUIRE(out[2] == o.key[i % 13] && out[3] == o.counter);
        CHECK(cudaMemcpyFromSymbol(has, table, sizeof has));
        REQUIRE(!memcmp(has, o.table, sizeof has));
        CHECK(cudaMemcpyFromSymbolAsync(pinned, key, sizeof o.key, 0, cudaMemcpyDeviceToHost,
                                        stream));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(!memcmp(pinned, o.key, sizeof o.key));
    }
    printf("%d rounds of constants\n", i);
}
