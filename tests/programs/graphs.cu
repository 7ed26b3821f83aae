// SPDX-License-Identifier: Apache-2.0
// Captures streams and replays the graphs with other data in host memory each time. Every word is
// compared with what the host computes; words around each buffer must stay as they are.
#include "graphs.h"
#include <sys/mman.h>

// linear captures copy, kernels, copy in one stream; host memory changes between replays.
static void linear(const char *name, bool pinned, cudaStreamCaptureMode mode) {
    Host in(pinned), out(pinned);
    Device a, b;
    cudaStream_t s;
    cudaGraph_t g;
    CHECK(cudaStreamCreate(&s));
    in.fill();
    CHECK(cudaStreamBeginCapture(s, mode));
    CHECK(cudaMemcpyAsync(a.data, in.data, bytes, cudaMemcpyHostToDevice, s));
    mix<<<grid, block, 0, s>>>(b.data, a.data, n, 1);
    mix<<<grid, block, 0, s>>>(a.data, b.data, n, 2);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(out.data, a.data, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamEndCapture(s, &g));
    for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == 0xdeadbeefu); // nothing ran yet
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        in.fill();
        launch(e, s);
        for (unsigned i = 0; i < n; i++)
            REQUIRE(out.data[i] == mixed(mixed(in.data[i], 1, i), 2, i));
    }
    printf("%s: %zu nodes, %u replays right\n", name, count(g), replays);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
}

// queued launches the same graph again and again without waiting in between.
static void queued() {
    Device a;
    Host out(true);
    cudaStream_t s;
    cudaGraph_t g;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaMemset(a.data, 0, bytes));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    mix<<<grid, block, 0, s>>>(a.data, a.data, n, 7);
    mix<<<grid, block, 0, s>>>(a.data, a.data, n, 8);
    CHECK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t e = instantiate(g);
    CHECK(cudaGraphUpload(e, s));
    for (unsigned r = 0; r < replays; r++) CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaMemcpyAsync(out.data, a.data, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    for (unsigned i = 0; i < n; i++) {
        unsigned v = 0;
        for (unsigned r = 0; r < replays; r++) v = mixed(mixed(v, 7, i), 8, i);
        REQUIRE(out.data[i] == v);
    }
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    printf("queued: %u launches in order\n", replays);
}

// forkJoin captures three streams, which events fork and join.
static void forkJoin() {
    Host in(true), out(true);
    Device a, b, c, d;
    cudaStream_t s[3];
    cudaEvent_t fork, left, right;
    cudaGraph_t g;
    for (auto &x : s) CHECK(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
    for (auto *e : {&fork, &left, &right})
        CHECK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemcpyAsync(a.data, in.data, bytes, cudaMemcpyHostToDevice, s[0]));
    CHECK(cudaEventRecord(fork, s[0]));
    CHECK(cudaStreamWaitEvent(s[1], fork, 0));
    CHECK(cudaStreamWaitEvent(s[2], fork, 0));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(s[1], &status));
    REQUIRE(status == cudaStreamCaptureStatusActive);
    mix<<<grid, block, 0, s[1]>>>(b.data, a.data, n, 11);
    mix<<<grid, block, 0, s[2]>>>(c.data, a.data, n, 12);
    mix<<<grid, block, 0, s[2]>>>(c.data, c.data, n, 13);
    CHECK(cudaEventRecord(left, s[1]));
    CHECK(cudaEventRecord(right, s[2]));
    CHECK(cudaStreamWaitEvent(s[0], left, 0));
    CHECK(cudaStreamWaitEvent(s[0], right, 0));
    join<<<grid, block, 0, s[0]>>>(d.data, b.data, c.data, n, 14);
    CHECK(cudaMemcpyAsync(out.data, d.data, bytes, cudaMemcpyDeviceToHost, s[0]));
    CHECK(cudaStreamEndCapture(s[0], &g));
    for (auto x : s) {
        CHECK(cudaStreamIsCapturing(x, &status));
        REQUIRE(status == cudaStreamCaptureStatusNone);
    }
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        in.fill();
        launch(e, s[r % 3]);
        for (unsigned i = 0; i < n; i++) {
            unsigned v = in.data[i];
            REQUIRE(out.data[i] == joined(mixed(v, 11, i), mixed(mixed(v, 12, i), 13, i), 14));
        }
    }
    printf("fork and join: %zu nodes, %u replays right\n", count(g), replays);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    for (auto x : s) CHECK(cudaStreamDestroy(x));
    for (auto x : {fork, left, right}) CHECK(cudaEventDestroy(x));
}

// load captures a copy from host memory.
static cudaGraphExec_t load(cudaStream_t s, unsigned *to, const void *from) {
    cudaGraph_t g;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s));
    CHECK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t e = instantiate(g);
    CHECK(cudaGraphDestroy(g));
    return e;
}

static const unsigned constants[n] = {1, 1, 2, 3, 5, 8, 13, 21};

// moved puts other pages at addresses that graphs know, after some and before others of them were
// captured. It also captures memory that can't be written.
static void moved() {
    const size_t size = 1 << 16, at[] = {0, 5000, 30000};
    Device a;
    Host out(true);
    cudaStream_t s;
    cudaGraphExec_t e[4];
    CHECK(cudaStreamCreate(&s));
    char *p = nullptr;
    for (unsigned i = 0; i < 3; i++) {
        p = (char *)mmap(p, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | (p ? MAP_FIXED : 0), -1, 0);
        REQUIRE(p != MAP_FAILED);
        // A graph that was captured earlier is captured again for its pages to be sure.
        for (unsigned k = 0; k <= i; k++) {
            if (k < i) CHECK(cudaGraphExecDestroy(e[k]));
            e[k] = load(s, a.data, p + at[k]);
        }
        for (unsigned k = 0; k <= i; k++) {
            unsigned *from = (unsigned *)(p + at[k]);
            for (unsigned r = 0; r < 2; r++) {
                for (unsigned j = 0; j < n; j++) from[j] = rnd.next();
                launch(e[k], s);
                CHECK(cudaMemcpy(out.data, a.data, bytes, cudaMemcpyDeviceToHost));
                REQUIRE(!memcmp(out.data, from, bytes));
            }
        }
    }
    e[3] = load(s, a.data, constants);
    launch(e[3], s);
    CHECK(cudaMemcpy(out.data, a.data, bytes, cudaMemcpyDeviceToHost));
    REQUIRE(!memcmp(out.data, constants, bytes));
    for (auto x : e) CHECK(cudaGraphExecDestroy(x));
    CHECK(cudaStreamDestroy(s));
    munmap(p, size);
    puts("pages that move: right");
}

struct Counter {
    unsigned calls;
    Host *in, *out;
    unsigned key;
};

// produce is a host function that writes what the graph reads after it.
static void produce(void *data) {
    Counter *c = (Counter *)data;
    c->calls++;
    for (unsigned i = 0; i < n; i++) c->in->data[i] = c->calls * 1000 + i;
}

// consume checks what the graph wrote before it.
static void consume(void *data) {
    Counter *c = (Counter *)data;
    for (unsigned i = 0; i < n; i++)
        REQUIRE(c->out->data[i] == mixed(c->calls * 1000 + i, c->key, i));
    memset(c->out->data, 0, bytes);
}

// hosts runs host functions among other nodes: captured, and added by hand.
static void hosts() {
    Host in(true), out(true);
    Device a;
    Counter c = {0, &in, &out, 61};
    cudaStream_t s;
    cudaGraph_t g;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaLaunchHostFunc(s, produce, &c));
    CHECK(cudaMemcpyAsync(a.data, in.data, bytes, cudaMemcpyHostToDevice, s));
    mix<<<grid, block, 0, s>>>(a.data, a.data, n, 61);
    CHECK(cudaMemcpyAsync(out.data, a.data, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamEndCapture(s, &g));
    cudaGraphNode_t nodes[4], last;
    size_t four = 4;
    CHECK(cudaGraphGetNodes(g, nodes, &four));
    REQUIRE(four == 4);
    cudaGraphNode_t leaf = nullptr;
    for (auto x : nodes) {
        size_t after = 0;
#if CUDART_VERSION >= 13000
        CHECK(cudaGraphNodeGetDependentNodes(x, nullptr, nullptr, &after));
#else
        CHECK(cudaGraphNodeGetDependentNodes(x, nullptr, &after));
#endif
        if (after == 0) leaf = x;
    }
    cudaHostNodeParams p = {};
    p.fn = consume;
    p.userData = &c;
    CHECK(cudaGraphAddHostNode(&last, g, &leaf, 1, &p));
    cudaHostNodeParams got;
    CHECK(cudaGraphHostNodeGetParams(last, &got));
    REQUIRE(got.fn == consume && got.userData == &c);
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
    REQUIRE(c.calls == replays);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    printf("host functions: called %u times\n", c.calls);
}

// rows copies and fills rectangles, from pinned and from ordinary memory.
static void rows() {
    const size_t width = 52, height = 30, pitch = 100; // words: height * pitch = n
    Host in(true), plain(false), out(true);
    Device a;
    cudaStream_t s;
    cudaGraph_t g;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(a.data, 0, bytes, s));
    CHECK(cudaMemset2DAsync(a.data + 10, pitch * 4, 0x33, width * 4, height, s));
    CHECK(cudaMemcpy2DAsync(a.data + 1, pitch * 4, in.data, width * 4, 20 * 4, height,
                            cudaMemcpyHostToDevice, s));
    CHECK(cudaMemcpy2DAsync(a.data + 70, pitch * 4, plain.data, width * 4, 20 * 4, height,
                            cudaMemcpyHostToDevice, s));
    CHECK(cudaMemcpyAsync(out.data, a.data, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        in.fill();
        plain.fill();
        launch(e, s);
        for (size_t y = 0; y < height; y++) {
            for (size_t x = 0; x < pitch; x++) {
                unsigned want = x >= 10 && x < 10 + width ? 0x33333333u : 0;
                if (x >= 1 && x < 21) want = in.data[y * width + x - 1];
                if (x >= 70 && x < 90) want = plain.data[y * width + x - 70];
                REQUIRE(out.data[y * pitch + x] == want);
            }
        }
    }
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    puts("rows: right");
}

// events records and waits for events in graphs, which order graphs with other streams.
static void events() {
    Host in(true), out(true);
    Device a;
    cudaStream_t s, t;
    cudaEvent_t ready, begin;
    cudaGraph_t g;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&begin, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaStreamWaitEvent(s, begin, cudaEventWaitExternal));
    mix<<<grid, block, 0, s>>>(a.data, a.data, n, 81);
    CHECK(cudaEventRecordWithFlags(ready, s, cudaEventRecordExternal));
    CHECK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        in.fill();
        CHECK(cudaMemcpyAsync(a.data, in.data, bytes, cudaMemcpyHostToDevice, t));
        CHECK(cudaEventRecord(begin, t));
        CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaStreamWaitEvent(t, ready, 0));
        CHECK(cudaMemcpyAsync(out.data, a.data, bytes, cudaMemcpyDeviceToHost, t));
        CHECK(cudaStreamSynchronize(t));
        for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == mixed(in.data[i], 81, i));
    }
    CHECK(cudaEventQuery(ready));
    printf("events: %zu nodes, %u replays right\n", count(g), replays);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaEventDestroy(ready));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(t));
}

// extend captures into a graph that is there already, and reads and sets the dependencies.
static void extend() {
    Device a, b;
    Host in(true), out(true);
    CUstream s;
    CUgraph g, same;
    CHECKCU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    cudaGraphNode_t load;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&load, g, nullptr, 0, a.data, in.data, bytes,
                                   cudaMemcpyHostToDevice));
    CHECKCU(cuStreamBeginCaptureToGraph(s, g, &load, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    mix<<<grid, block, 0, s>>>(a.data, a.data, n, 101);
    // A node by hand, as libraries do that extend a capture.
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph capturing;
    const CUgraphNode *tail;
    size_t tails = 0;
#if CUDA_VERSION >= 13000
    CHECKCU(cuStreamGetCaptureInfo(s, &status, &id, &capturing, &tail, nullptr, &tails));
#else
    CHECKCU(cuStreamGetCaptureInfo_v2(s, &status, &id, &capturing, &tail, &tails));
#endif
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && capturing == g && tails == 1 && id != 0);
    unsigned *pa = a.data, *pb = b.data, size = n, key = 102;
    void *args[] = {&pb, &pa, &size, &key};
    cudaKernelNodeParams p = kernel((void *)mix, args);
    cudaGraphNode_t added;
    CHECK(cudaGraphAddKernelNode(&added, g, tail, tails, &p));
#if CUDA_VERSION >= 13000
    CHECKCU(cuStreamUpdateCaptureDependencies(s, &added, nullptr, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
#else
    CHECKCU(cuStreamUpdateCaptureDependencies(s, &added, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
#endif
    CHECK(cudaMemcpyAsync(out.data, b.data, bytes, cudaMemcpyDeviceToHost, s));
    CHECKCU(cuStreamEndCapture(s, &same));
    REQUIRE(same == g);
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        in.fill();
        launch(e, s);
        for (unsigned i = 0; i < n; i++)
            REQUIRE(out.data[i] == mixed(mixed(in.data[i], 101, i), 102, i));
    }
    printf("extended: %zu nodes\n", count(g));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECKCU(cuStreamDestroy(s));
}

int main() {
    openDevice();
    linear("pinned", true, cudaStreamCaptureModeGlobal);
    linear("pageable", false, cudaStreamCaptureModeThreadLocal);
    moved();
    queued();
    forkJoin();
    hosts();
    rows();
    events();
    extend();
    return 0;
}
