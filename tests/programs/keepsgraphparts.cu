// SPDX-License-Identifier: Apache-2.0
// What graphs have besides plain nodes, used round after round: as many as the argument says, 0 for
// no end. Conditions, of loops and choices, of which the graph is there or gone; and memory, which
// is freed by another graph, by a later launch, by a call when its graph is gone, or in the graph.
// What the device tells of that memory stays the same from round to round.
#include "conditions.h"
#include <cstring>

const int words = 64;

static __global__ void step(uint32_t *p, uint32_t add) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + add + threadIdx.x;
}

struct Oracle {
    uint32_t word[words] = {};
    void fill(int byte) { memset(word, byte, sizeof word); }
    void step(uint32_t add) {
        for (int k = 0; k < words; k++) word[k] = word[k] * 1664525u + add + k;
    }
    void compare(const uint32_t *p) const {
        uint32_t has[words];
        CHECK(cudaMemcpy(has, p, sizeof has, cudaMemcpyDeviceToHost));
        REQUIRE(memcmp(has, word, sizeof has) == 0);
    }
};

static cudaGraphNode_t addStep(cudaGraph_t g, cudaGraphNode_t after, uint32_t *p, uint32_t add) {
    void *arguments[] = {&p, &add};
    cudaKernelNodeParams params = {};
    params.func = (void *)step;
    params.gridDim = dim3(1);
    params.blockDim = dim3(words);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, g, &after, after ? 1 : 0, &params));
    return node;
}

static uint32_t *zeros() {
    uint32_t *p;
    CHECK(cudaMalloc(&p, words * 4));
    CHECK(cudaMemset(p, 0, words * 4));
    return p;
}

// Choice runs one of three bodies, for a word of device memory.
struct Choice {
    uint32_t *data = zeros(), *chosen = zeros();
    cudaGraphExec_t exec;
    Oracle want;

    explicit Choice(bool keep) {
        CUgraph g;
        CHECKCU(cuGraphCreate(&g, 0));
        CUgraphConditionalHandle h = newHandle(g, 0, false);
        std::vector<CUgraph> bodies;
        conditional(g, decide(g, nullptr, choose, h, chosen), h, SWITCH, 3, bodies);
        for (uint32_t i = 0; i < 3; i++) addStep(bodies[i], nullptr, data, i);
        CHECK(cudaGraphInstantiate(&exec, g, 0));
        if (!keep) CHECKCU(cuGraphDestroy(g));
    }
    void round(uint32_t value) {
        CHECK(cudaMemcpy(chosen, &value, 4, cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(exec, nullptr));
        if (value < 3) want.step(value);
        want.compare(data);
    }
};

// Loop runs its body as often as a word says. Its graph is made executable again and again.
struct Loop {
    uint32_t *data = zeros(), *counter = zeros();
    CUgraph graph, body;
    Oracle want;

    Loop() {
        CHECKCU(cuGraphCreate(&graph, 0));
        CUgraphConditionalHandle h = newHandle(graph, 1, true);
        std::vector<CUgraph> bodies;
        conditional(graph, nullptr, h, WHILE, 1, bodies);
        body = bodies[0];
        decide(body, addStep(body, nullptr, data, 7), count1, h, counter);
    }
    void round(uint32_t times) {
        const uint32_t start[] = {0, times};
        size_t nodes;
        cudaGraphExec_t exec;
        CHECKCU(cuGraphGetNodes(body, nullptr, &nodes));
        REQUIRE(nodes == 2);
        CHECK(cudaMemcpy(counter, start, sizeof start, cudaMemcpyHostToDevice));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, nullptr));
        for (uint32_t k = 0; k < times; k++) want.step(7);
        want.compare(data);
        CHECK(cudaGraphExecDestroy(exec));
    }
};

static uint32_t *addAllocation(cudaGraph_t g, cudaGraphNode_t *node, size_t size) {
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = size;
    CHECK(cudaGraphAddMemAllocNode(node, g, nullptr, 0, &p));
    return (uint32_t *)p.dptr;
}

// Handed is memory that one graph allocates, and another one frees a round later.
struct Handed {
    uint32_t *p;
    cudaGraphExec_t make, free;
    Oracle want;

    Handed() {
        cudaGraph_t makes, frees;
        cudaGraphNode_t node;
        CHECK(cudaGraphCreate(&makes, 0));
        p = addAllocation(makes, &node, 1 << 20);
        CHECK(cudaGraphCreate(&frees, 0));
        CHECK(cudaGraphAddMemFreeNode(&node, frees, nullptr, 0, p));
        CHECK(cudaGraphInstantiate(&make, makes, 0));
        CHECK(cudaGraphInstantiate(&free, frees, 0));
    }
    void round(int i) {
        if (i % 2 == 0) {
            CHECK(cudaGraphLaunch(make, nullptr));
            CHECK(cudaMemset(p, i, words * 4));
            want.fill(i);
        }
        step<<<1, words>>>(p, i);
        CHECK(cudaGetLastError());
        want.step(i);
        want.compare(p);
        if (i % 2) CHECK(cudaGraphLaunch(free, nullptr));
    }
};

// Refilled is memory that each launch allocates anew, and fills.
struct Refilled {
    uint32_t *p;
    cudaGraphExec_t exec;
    Oracle want;

    Refilled() {
        cudaGraph_t g;
        cudaGraphNode_t node, fill;
        CHECK(cudaGraphCreate(&g, 0));
        p = addAllocation(g, &node, 4096);
        cudaMemsetParams set = {};
        set.dst = p;
        set.value = 3;
        set.elementSize = 1;
        set.width = words * 4;
        set.height = 1;
        CHECK(cudaGraphAddMemsetNode(&fill, g, &node, 1, &set));
        CHECK(cudaGraphInstantiateWithFlags(&exec, g, cudaGraphInstantiateFlagAutoFreeOnLaunch));
        round(0);
    }
    void round(int i) {
        if (i % 3 == 0) {
            CHECK(cudaGraphLaunch(exec, nullptr));
            want.fill(3);
        }
        want.compare(p);
        step<<<1, words>>>(p, i);
        CHECK(cudaGetLastError());
        want.step(i);
    }
};

// Left is memory that was captured, and whose graph is gone.
struct Left {
    uint32_t *p;
    Oracle want;

    void make(cudaStream_t s) {
        cudaGraph_t g;
        cudaGraphExec_t e;
        CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMallocAsync(&p, 3 << 20, s));
        CHECK(cudaMemsetAsync(p, 9, words * 4, s));
        CHECK(cudaStreamEndCapture(s, &g));
        CHECK(cudaGraphInstantiate(&e, g, 0));
        CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaGraphExecDestroy(e));
        CHECK(cudaGraphDestroy(g));
        want.fill(9);
    }
    void round(int i, cudaStream_t s) {
        if (i % 7 == 6) {
            CHECK(cudaFreeAsync(p, s));
            make(s);
        }
        step<<<1, words, 0, s>>>(p, i);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(s));
        want.step(i);
        want.compare(p);
    }
};

// Told is what the device says of memory of graphs.
struct Told {
    size_t value[4];
    Told() {
        const cudaGraphMemAttributeType all[] = {
            cudaGraphMemAttrUsedMemCurrent, cudaGraphMemAttrUsedMemHigh,
            cudaGraphMemAttrReservedMemCurrent, cudaGraphMemAttrReservedMemHigh};
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < 4; i++) CHECK(cudaDeviceGetGraphMemAttribute(0, all[i], &value[i]));
    }
};

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    openDevice();
    loadDeciders();
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Choice kept(true), orphan(false);
    Loop loop;
    Handed handed;
    Refilled refilled;
    Left left;
    left.make(stream);
    Told told;
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        const Told now;
        REQUIRE(memcmp(now.value, told.value, sizeof now) == 0);
        kept.round(i % 4);
        orphan.round((i + 1) % 4);
        loop.round(1 + i % 3);
        handed.round(i);
        refilled.round(i);
        left.round(i, stream);
        if (i % 11 == 10) {
            size_t zero = 0;
            CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
            CHECK(cudaDeviceGraphMemTrim(0));
        }
        told = Told();
    }
    printf("%d rounds of conditions and memory of graphs\n", i);
    return 0;
}
