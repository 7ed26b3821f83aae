// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: kernels decide which bodies run, and how often. Every word is compared with
// what the host computes; words around each buffer must stay as they are.
#include "graphs.h"
#include "conditions.h"

// mixing adds a kernel of this program's.
static CUgraphNode mixing(CUgraph g, CUgraphNode after, unsigned *data, unsigned key) {
    unsigned size = n;
    void *args[] = {&data, &data, &size, &key};
    cudaKernelNodeParams p = kernel((void *)mix, args);
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, g, &after, after ? 1 : 0, &p));
    return node;
}

// branches runs one of several bodies, or none, for the word that is in device memory.
static void branches(const char *name, int type, unsigned size, const std::vector<int> &chosen) {
    Device a, words;
    Host in(true), out(true);
    CUgraph g;
    CHECKCU(cuGraphCreate(&g, 0));
    CUgraphConditionalHandle h = newHandle(g, 0, false);
    std::vector<CUgraph> bodies;
    CUgraphNode node =
        conditional(g, decide(g, nullptr, choose, h, words.data), h, type, size, bodies);
    for (unsigned i = 0; i < size; i++)
        mixing(bodies[i], mixing(bodies[i], nullptr, a.data, i + 1), a.data, i + 11);
    mixing(g, node, a.data, 99);
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        unsigned value = rnd.below(unsigned(chosen.size()));
        in.fill();
        CHECK(cudaMemcpy(a.data, in.data, bytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(words.data, &value, 4, cudaMemcpyHostToDevice));
        launch(e, nullptr);
        CHECK(cudaMemcpy(out.data, a.data, bytes, cudaMemcpyDeviceToHost));
        int body = chosen[value];
        for (unsigned i = 0; i < n; i++) {
            unsigned v = in.data[i];
            if (body >= 0) v = mixed(mixed(v, unsigned(body) + 1, i), unsigned(body) + 11, i);
            REQUIRE(out.data[i] == mixed(v, 99, i));
        }
    }
    printf("%s: %u bodies, %u replays right\n", name, size, replays);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
}

// loops runs a loop in a loop, of which the graph may be gone.
static void loops() {
    Device a, words;
    Host in(true), out(true);
    CUgraph g;
    CHECKCU(cuGraphCreate(&g, 0));
    CUgraphConditionalHandle outer = newHandle(g, 1, true), inner = newHandle(g, 1, true);
    std::vector<CUgraph> body, nested;
    unsigned *again = words.data, *times = words.data + 2;
    conditional(g, nullptr, outer, WHILE, 1, body);
    // The inner loop's counter begins at 0 each time. Its condition holds before the first time of
    // all.
    cudaMemsetParams zero = fillOf(times, 0);
    zero.width = 1;
    cudaGraphNode_t reset;
    CHECK(cudaGraphAddMemsetNode(&reset, body[0], nullptr, 0, &zero));
    CUgraphNode loop = conditional(body[0], reset, inner, WHILE, 1, nested);
    mixing(nested[0], decide(nested[0], nullptr, count1, inner, times), a.data, 5);
    CUgraphNode last = decide(body[0], loop, count1, outer, again);
    decide(body[0], last, choose, inner, words.data + 4); // so that it runs again
    cudaGraphExec_t e = instantiate(g);
    CHECK(cudaGraphDestroy(g));
    for (unsigned r = 0; r < replays; r++) {
        unsigned start[] = {0, 1 + rnd.below(5), 0, 1 + rnd.below(5), 1}, end[5];
        in.fill();
        CHECK(cudaMemcpy(a.data, in.data, bytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(words.data, start, sizeof start, cudaMemcpyHostToDevice));
        launch(e, nullptr);
        CHECK(cudaMemcpy(end, words.data, sizeof end, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(out.data, a.data, bytes, cudaMemcpyDeviceToHost));
        REQUIRE(end[0] == start[1] && end[2] == start[3]);
        for (unsigned i = 0; i < n; i++) {
            unsigned v = in.data[i];
            for (unsigned k = 0; k < start[1] * start[3]; k++) v = mixed(v, 5, i);
            REQUIRE(out.data[i] == v);
        }
    }
    printf("loop in a loop: %u replays right\n", replays);
    CHECK(cudaGraphExecDestroy(e));
}

// captured adds a loop to a capture, and captures its body, as libraries do.
static void captured() {
    Device a, words;
    Host in(true), out(true);
    cudaStream_t s, t;
    cudaGraph_t whole, same;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMemcpyAsync(a.data, in.data, bytes, cudaMemcpyHostToDevice, s));
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph g;
    const CUgraphNode *tail;
    size_t tails;
#if CUDA_VERSION >= 13000
    CHECKCU(cuStreamGetCaptureInfo(s, &status, &id, &g, &tail, nullptr, &tails));
#else
    CHECKCU(cuStreamGetCaptureInfo_v2(s, &status, &id, &g, &tail, &tails));
#endif
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && tails == 1);
    CUgraphConditionalHandle h = newHandle(g, 1, true);
    std::vector<CUgraph> body;
    CUgraphNode loop = conditional(g, *tail, h, WHILE, 1, body);
#if CUDA_VERSION >= 13000
    CHECKCU(cuStreamUpdateCaptureDependencies(s, &loop, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
#else
    CHECKCU(cuStreamUpdateCaptureDependencies(s, &loop, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
#endif
    CHECKCU(cuStreamBeginCaptureToGraph(t, body[0], nullptr, nullptr, 0,
                                        CU_STREAM_CAPTURE_MODE_RELAXED));
    mix<<<grid, block, 0, t>>>(a.data, a.data, n, 7);
    unsigned *p = words.data;
    void *args[] = {&h, &p};
    CHECKCU(cuLaunchKernel(count1, 1, 1, 1, 1, 1, 1, 0, t, args, nullptr));
    CHECK(cudaStreamEndCapture(t, &same));
    REQUIRE(same == body[0] && count(same) == 2);
    CHECK(cudaMemcpyAsync(out.data, a.data, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamEndCapture(s, &whole));
    cudaGraphExec_t e = instantiate(whole);
    for (unsigned r = 0; r < replays; r++) {
        unsigned start[] = {0, r + 1};
        in.fill();
        CHECK(cudaMemcpyAsync(words.data, start, sizeof start, cudaMemcpyHostToDevice, s));
        launch(e, s);
        for (unsigned i = 0; i < n; i++) {
            unsigned v = in.data[i];
            for (unsigned k = 0; k <= r; k++) v = mixed(v, 7, i);
            REQUIRE(out.data[i] == v);
        }
    }
    printf("captured: %zu nodes, %u replays right\n", count(whole), replays);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(whole));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(t));
}

int main() {
    openDevice();
    loadDeciders();
    branches("if", IF, 1, {-1, 0, 0});
    branches("if and else", IF, 2, {1, 0, 0});
    branches("switch", SWITCH, 4, {0, 1, 2, 3, -1});
    loops();
    captured();
    return 0;
}
