// SPDX-License-Identifier: Apache-2.0
// Graphs that are launched round after round: as many as the argument says, 0 for no end. One is
// changed each round, one was captured, one is of nodes of which one is disabled, one has another
// in it, and of one the graph that it was made of is gone. In between graphs are looked at, copied
// and made.
#include "check.h"
#include <cstdint>
#include <vector>

const int words = 64;

__global__ void step(uint32_t *p, uint32_t round) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + round + threadIdx.x;
}

struct Counter {
    int calls;
};

static void CUDART_CB count(void *p) { static_cast<Counter *>(p)->calls++; }

static cudaGraphNode_t addStep(cudaGraph_t g, cudaGraphNode_t after, uint32_t *p, uint32_t *round) {
    void *arguments[] = {&p, round};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(step);
    params.gridDim = dim3(1);
    params.blockDim = dim3(words);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, g, &after, after ? 1 : 0, &params));
    return node;
}

static void setStep(cudaGraphExec_t e, cudaGraphNode_t node, uint32_t *p, uint32_t *round) {
    void *arguments[] = {&p, round};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(step);
    params.gridDim = dim3(1);
    params.blockDim = dim3(words);
    params.kernelParams = arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(e, node, &params));
}

static size_t nodes(cudaGraph_t g) {
    size_t n = 0;
    CHECK(cudaGraphGetNodes(g, nullptr, &n));
    return n;
}

struct Oracle {
    uint32_t word[words];
    void step(uint32_t round) {
        for (int k = 0; k < words; k++) word[k] = word[k] * 1664525u + round + k;
    }
};

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    uint32_t zero = 0, seven = 7;
    uint32_t *changed, *captured, *disabled, *nested, *orphan;
    for (uint32_t **p : {&changed, &captured, &disabled, &nested, &orphan}) {
        CHECK(cudaMalloc(p, words * 4));
        CHECK(cudaMemset(*p, 0, words * 4));
    }
    uint32_t *has;
    CHECK(cudaMallocHost(&has, words * 4));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    Counter counter = {};

    cudaGraph_t graph, inner, outer, twice, gone;
    cudaGraphExec_t exec, capturedExec, disabledExec, outerExec, orphanExec;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t node = addStep(graph, nullptr, changed, &zero), copy, host;
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &node, 1, has, changed, words * 4,
                                   cudaMemcpyDeviceToHost));
    cudaHostNodeParams call = {count, &counter};
    CHECK(cudaGraphAddHostNode(&host, graph, &copy, 1, &call));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));

    cudaGraph_t capture;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    step<<<1, words, 0, stream>>>(captured, 3);
    CHECK(cudaMemsetAsync(captured, 0, 4, stream));
    CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
    step<<<1, words, 0, stream>>>(captured, 5);
    CHECK(cudaStreamEndCapture(stream, &capture));
    CHECK(cudaGraphInstantiate(&capturedExec, capture, 0));

    CHECK(cudaGraphCreate(&twice, 0));
    cudaGraphNode_t first = addStep(twice, nullptr, disabled, &seven);
    cudaGraphNode_t second = addStep(twice, first, disabled, &seven);
    CHECK(cudaGraphInstantiate(&disabledExec, twice, 0));
    CHECK(cudaGraphNodeSetEnabled(disabledExec, first, 0));

    CHECK(cudaGraphCreate(&inner, 0));
    addStep(inner, addStep(inner, nullptr, nested, &zero), nested, &seven);
    CHECK(cudaGraphCreate(&outer, 0));
    cudaGraphNode_t child, empty;
    CHECK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, inner));
    CHECK(cudaGraphAddEmptyNode(&empty, outer, &child, 1));
    addStep(outer, empty, nested, &seven);
    CHECK(cudaGraphInstantiate(&outerExec, outer, 0));

    CHECK(cudaGraphCreate(&gone, 0));
    addStep(gone, nullptr, orphan, &seven);
    CHECK(cudaGraphInstantiate(&orphanExec, gone, 0));
    CHECK(cudaGraphDestroy(gone));

    Oracle wantChanged = {}, wantCaptured = {}, wantDisabled = {}, wantNested = {}, wantOrphan = {};
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        uint32_t round = i;
        setStep(exec, node, changed, &round);
        for (cudaGraphExec_t e : {exec, capturedExec, disabledExec, outerExec, orphanExec})
            CHECK(cudaGraphLaunch(e, stream));
        CHECK(cudaStreamSynchronize(stream));
        wantChanged.step(i);
        wantCaptured.step(3);
        wantCaptured.word[0] = 0;
        wantCaptured.step(5);
        wantDisabled.step(7);
        wantNested.step(0);
        wantNested.step(7);
        wantNested.step(7);
        wantOrphan.step(7);
        REQUIRE(memcmp(has, wantChanged.word, sizeof wantChanged) == 0);
        REQUIRE(counter.calls == i + 1);
        CHECK(cudaEventQuery(event));
        const struct {
            const uint32_t *at;
            const Oracle *want;
        } places[] = {{captured, &wantCaptured},
                      {disabled, &wantDisabled},
                      {nested, &wantNested},
                      {orphan, &wantOrphan}};
        for (auto &p : places) {
            uint32_t now[words];
            CHECK(cudaMemcpy(now, p.at, sizeof now, cudaMemcpyDeviceToHost));
            REQUIRE(memcmp(now, p.want->word, sizeof now) == 0);
        }

        unsigned enabled[2];
        CHECK(cudaGraphNodeGetEnabled(disabledExec, first, &enabled[0]));
        CHECK(cudaGraphNodeGetEnabled(disabledExec, second, &enabled[1]));
        REQUIRE(!enabled[0] && enabled[1]);
        REQUIRE(nodes(graph) == 3 && nodes(capture) == 4 && nodes(outer) == 3);
        cudaGraph_t in, cloned;
        CHECK(cudaGraphChildGraphNodeGetGraph(child, &in));
        REQUIRE(nodes(in) == 2);
        cudaGraphNode_t before[2], same;
        size_t n = 2;
#if CUDART_VERSION >= 13000
        CHECK(cudaGraphNodeGetDependencies(host, before, nullptr, &n));
#else
        CHECK(cudaGraphNodeGetDependencies(host, before, &n));
#endif
        REQUIRE(n == 1 && before[0] == copy);
        CHECK(cudaGraphClone(&cloned, graph));
        CHECK(cudaGraphNodeFindInClone(&same, node, cloned));
        cudaGraphExecUpdateResultInfo info;
        CHECK(cudaGraphExecUpdate(exec, cloned, &info));
        CHECK(cudaGraphDestroy(cloned));
    }
    printf("%d rounds of 5 graphs\n", i);
}
