// SPDX-License-Identifier: Apache-2.0
// Captures and builds graphs of all kinds of nodes, changes them, and replays them with other data in host memory
// each time. Every word is compared with what the host computes; words around each buffer must stay as they are.
#include "driver.h"
#include <cstring>
#include <vector>

const unsigned n = 3000, guard = 16, replays = 12;
static Random rnd = {2024};

static __global__ void mix(unsigned *out, const unsigned *in, unsigned n, unsigned key) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (in[i] ^ key) * 1664525u + i;
}

static __global__ void join(unsigned *out, const unsigned *a, const unsigned *b, unsigned n, unsigned key) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * 3 + b[i] * 5 + key;
}

static const dim3 grid((n + 127) / 128), block(128);

static unsigned mixed(unsigned v, unsigned key, unsigned i) { return (v ^ key) * 1664525u + i; }
static unsigned joined(unsigned a, unsigned b, unsigned key) { return a * 3 + b * 5 + key; }

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
        for (unsigned i = 0; i < guard; i++) REQUIRE(all[i] == 0xdeadbeefu && data[n + i] == 0xdeadbeefu);
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

static cudaGraphExec_t instantiate(cudaGraph_t g, unsigned long long flags = 0) {
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiateWithFlags(&e, g, flags));
    return e;
}

static void launch(cudaGraphExec_t e, cudaStream_t s) {
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
}

static size_t count(cudaGraph_t g) {
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(g, nullptr, &nodes));
    return nodes;
}

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
        for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == mixed(mixed(in.data[i], 1, i), 2, i));
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
    for (auto *e : {&fork, &left, &right}) CHECK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
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

static cudaKernelNodeParams kernel(void *f, void **args) {
    cudaKernelNodeParams p = {};
    p.func = f;
    p.gridDim = grid;
    p.blockDim = block;
    p.kernelParams = args;
    return p;
}

static cudaMemsetParams fillOf(unsigned *dst, unsigned value) {
    cudaMemsetParams p = {};
    p.dst = dst;
    p.value = value;
    p.elementSize = sizeof(unsigned);
    p.width = n;
    p.height = 1;
    return p;
}

// manual builds a graph node by node, then changes parameters of the graph and of the executable graph.
static void manual() {
    Host in(true), other(true), out(true);
    Device a, b, c;
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphNode_t load, fill, scale, sum, store;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaGraphCreate(&g, 0));
    unsigned *pa = a.data, *pb = b.data, *pc = c.data, size = n, key = 21, joinKey = 22;
    void *mixArgs[] = {&pc, &pa, &size, &key}, *joinArgs[] = {&pc, &pc, &pb, &size, &joinKey};
    cudaKernelNodeParams mixParams = kernel((void *)mix, mixArgs), joinParams = kernel((void *)join, joinArgs);
    cudaMemsetParams set = fillOf(b.data, 100);
    CHECK(cudaGraphAddMemcpyNode1D(&load, g, nullptr, 0, a.data, in.data, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddMemsetNode(&fill, g, nullptr, 0, &set));
    CHECK(cudaGraphAddKernelNode(&scale, g, &load, 1, &mixParams));
    cudaGraphNode_t both[] = {scale, fill};
    CHECK(cudaGraphAddKernelNode(&sum, g, both, 2, &joinParams));
    CHECK(cudaGraphAddMemcpyNode1D(&store, g, &sum, 1, out.data, c.data, bytes, cudaMemcpyDeviceToHost));
    size_t roots = 0, before = 0, after = 0;
    CHECK(cudaGraphGetRootNodes(g, nullptr, &roots));
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphNodeGetDependencies(sum, nullptr, nullptr, &before));
    CHECK(cudaGraphNodeGetDependentNodes(sum, nullptr, nullptr, &after));
#else
    CHECK(cudaGraphNodeGetDependencies(sum, nullptr, &before));
    CHECK(cudaGraphNodeGetDependentNodes(sum, nullptr, &after));
#endif
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(fill, &type));
    REQUIRE(type == cudaGraphNodeTypeMemset);
    cudaKernelNodeParams read;
    CHECK(cudaGraphKernelNodeGetParams(scale, &read));
    REQUIRE(*(unsigned *)read.kernelParams[3] == key && read.gridDim.x == grid.x && read.blockDim.x == block.x);
    printf("manual: %zu nodes, %zu roots, %zu before the sum and %zu after\n", count(g), roots, before, after);

    cudaGraphExec_t e = instantiate(g);
    auto run = [&](cudaGraphExec_t e, const Host &from, unsigned key, unsigned filled) {
        in.fill();
        other.fill();
        launch(e, s);
        for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == joined(mixed(from.data[i], key, i), filled, joinKey));
    };
    for (unsigned r = 0; r < replays; r++) run(e, in, 21, 100);
    // The executable graph alone.
    key = 31;
    CHECK(cudaGraphExecKernelNodeSetParams(e, scale, &mixParams));
    run(e, in, 31, 100);
    set = fillOf(b.data, 300);
    CHECK(cudaGraphExecMemsetNodeSetParams(e, fill, &set));
    run(e, in, 31, 300);
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(e, load, a.data, other.data, bytes, cudaMemcpyHostToDevice));
    run(e, other, 31, 300);
    // The graph it was made of is as before; changes to that show in the next one.
    cudaGraphExec_t second = instantiate(g);
    run(second, in, 21, 100);
    key = 41;
    CHECK(cudaGraphKernelNodeSetParams(scale, &mixParams));
    CHECK(cudaGraphMemcpyNodeSetParams1D(load, a.data, other.data, bytes, cudaMemcpyHostToDevice));
    run(second, in, 21, 100);
    cudaGraphExec_t third = instantiate(g);
    run(third, other, 41, 100);
    run(e, other, 31, 300);
    // A node that is off does nothing: the sum takes what was filled before.
    unsigned on = 7;
    CHECK(cudaGraphNodeSetEnabled(third, fill, 0));
    CHECK(cudaGraphNodeGetEnabled(third, fill, &on));
    REQUIRE(on == 0);
    run(third, other, 41, 300);
    CHECK(cudaGraphNodeSetEnabled(third, fill, 1));
    run(third, other, 41, 100);
    for (auto x : {e, second, third}) CHECK(cudaGraphExecDestroy(x));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
    puts("manual: parameters right");
}

// one captures a kernel or, without a key, a fill, and `more` kernels behind it.
static cudaGraph_t one(cudaStream_t s, unsigned *to, unsigned key, unsigned more) {
    cudaGraph_t g;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    if (key) mix<<<grid, block, 0, s>>>(to, to, n, key);
    else CHECK(cudaMemsetAsync(to, 1, bytes, s));
    while (more--) mix<<<grid, block, 0, s>>>(to, to, n, key);
    CHECK(cudaStreamEndCapture(s, &g));
    return g;
}

// update changes an executable graph to other graphs, where they have its form.
static void update() {
    Device a;
    Host out(true);
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    cudaGraph_t first = one(s, a.data, 51, 0), same = one(s, a.data, 52, 0), longer = one(s, a.data, 53, 1),
                fill = one(s, a.data, 0, 0);
    cudaGraphExec_t e = instantiate(first);
    cudaGraphExecUpdateResultInfo info = {};
    auto run = [&](unsigned key) {
        CHECK(cudaMemsetAsync(a.data, 0, bytes, s));
        CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaMemcpyAsync(out.data, a.data, bytes, cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == mixed(0, key, i));
    };
    run(51);
    CHECK(cudaGraphExecUpdate(e, same, &info));
    REQUIRE(info.result == cudaGraphExecUpdateSuccess);
    run(52);
    REPORT(cudaGraphExecUpdate(e, longer, &info));
    printf("update with a longer graph: %d\n", int(info.result));
    REPORT(cudaGraphExecUpdate(e, fill, &info));
    printf("update with another type: %d\n", int(info.result));
    cudaGetLastError();
    CHECK(cudaGraphExecDestroy(e));
    for (auto g : {first, same, longer, fill}) CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
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
    for (unsigned i = 0; i < n; i++) REQUIRE(c->out->data[i] == mixed(c->calls * 1000 + i, c->key, i));
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

// children embeds a graph twice, clones the whole and changes the clone.
static void children() {
    Device a;
    Host in(true), out(true);
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    cudaGraph_t inner = one(s, a.data, 71, 1), g, clone, embedded;
    cudaGraphNode_t load, first, second, between, store, found;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&load, g, nullptr, 0, a.data, in.data, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddChildGraphNode(&first, g, &load, 1, inner));
    CHECK(cudaGraphAddEmptyNode(&between, g, &first, 1));
    CHECK(cudaGraphAddChildGraphNode(&second, g, &between, 1, inner));
    CHECK(cudaGraphAddMemcpyNode1D(&store, g, &second, 1, out.data, a.data, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphChildGraphNodeGetGraph(first, &embedded));
    REQUIRE(embedded != inner && count(embedded) == 2);
    CHECK(cudaGraphDestroy(inner)); // copies stay
    CHECK(cudaGraphClone(&clone, g));
    CHECK(cudaGraphNodeFindInClone(&found, second, clone));
    CHECK(cudaGraphDestroyNode(found));
    CHECK(cudaGraphNodeFindInClone(&found, store, clone));
    cudaGraphNode_t from;
    CHECK(cudaGraphNodeFindInClone(&from, between, clone));
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddDependencies(clone, &from, &found, nullptr, 1));
#else
    CHECK(cudaGraphAddDependencies(clone, &from, &found, 1));
#endif
    cudaGraphExec_t whole = instantiate(g), less = instantiate(clone);
    for (unsigned r = 0; r < replays; r++) {
        in.fill();
        bool full = r % 2 == 0;
        launch(full ? whole : less, s);
        for (unsigned i = 0; i < n; i++) {
            unsigned v = in.data[i];
            for (int k = full ? 4 : 2; k > 0; k--) v = mixed(v, 71, i);
            REQUIRE(out.data[i] == v);
        }
    }
    // A launch that is captured becomes a child graph.
    cudaGraph_t outer;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaGraphLaunch(less, s));
    CHECK(cudaStreamEndCapture(s, &outer));
    cudaGraphNode_t only;
    size_t one = 1;
    cudaGraphNodeType type;
    CHECK(cudaGraphGetNodes(outer, &only, &one));
    CHECK(cudaGraphNodeGetType(only, &type));
    REQUIRE(one == 1 && type == cudaGraphNodeTypeGraph);
    cudaGraphExec_t nested = instantiate(outer);
    in.fill();
    launch(nested, s);
    for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == mixed(mixed(in.data[i], 71, i), 71, i));
    printf("children: %zu nodes in the clone\n", count(clone));
    for (auto e : {whole, less, nested}) CHECK(cudaGraphExecDestroy(e));
    for (auto x : {g, clone, outer}) CHECK(cudaGraphDestroy(x));
    CHECK(cudaStreamDestroy(s));
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
    CHECK(cudaMemcpy2DAsync(a.data + 1, pitch * 4, in.data, width * 4, 20 * 4, height, cudaMemcpyHostToDevice, s));
    CHECK(cudaMemcpy2DAsync(a.data + 70, pitch * 4, plain.data, width * 4, 20 * 4, height, cudaMemcpyHostToDevice, s));
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

// memory allocates and frees within a graph, and frees outside of it what it allocated.
static void memory() {
    Host in(true), out(true);
    cudaStream_t s;
    cudaGraph_t g;
    unsigned *p;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&p, bytes, s));
    CHECK(cudaMemcpyAsync(p, in.data, bytes, cudaMemcpyHostToDevice, s));
    mix<<<grid, block, 0, s>>>(p, p, n, 91);
    CHECK(cudaMemcpyAsync(out.data, p, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaFreeAsync(p, s));
    CHECK(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        in.fill();
        launch(e, s);
        for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == mixed(in.data[i], 91, i));
    }
    CHECK(cudaGraphExecDestroy(e));
    printf("memory: %zu nodes, %u replays right\n", count(g), replays);
    CHECK(cudaGraphDestroy(g));

    cudaGraphNode_t alloc, fill;
    CHECK(cudaGraphCreate(&g, 0));
    cudaMemAllocNodeParams params = {};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = bytes;
    CHECK(cudaGraphAddMemAllocNode(&alloc, g, nullptr, 0, &params));
    REQUIRE(params.dptr);
    p = (unsigned *)params.dptr;
    cudaMemsetParams set = fillOf(p, 92);
    CHECK(cudaGraphAddMemsetNode(&fill, g, &alloc, 1, &set));
    e = instantiate(g);
    for (unsigned r = 0; r < replays; r++) {
        CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaMemcpyAsync(out.data, p, bytes, cudaMemcpyDeviceToHost, s));
        CHECK(cudaFreeAsync(p, s));
        CHECK(cudaStreamSynchronize(s));
        for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == 92);
    }
    CHECK(cudaGraphExecDestroy(e));
    e = instantiate(g, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    for (unsigned r = 0; r < replays; r++) launch(e, s);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaFree(p));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaDeviceGraphMemTrim(0));
    CHECK(cudaStreamDestroy(s));
    puts("memory: freed outside and by launches");
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
    CHECK(cudaGraphAddMemcpyNode1D(&load, g, nullptr, 0, a.data, in.data, bytes, cudaMemcpyHostToDevice));
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
    CHECKCU(cuStreamUpdateCaptureDependencies(s, &added, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
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
        for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == mixed(mixed(in.data[i], 101, i), 102, i));
    }
    printf("extended: %zu nodes\n", count(g));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECKCU(cuStreamDestroy(s));
}

// webs replays random graphs of kernels, each of which joins what two earlier nodes wrote.
static void webs() {
    const unsigned kernels = 24;
    Host in(true), out(true);
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    std::vector<unsigned *> at(kernels + 1);
    for (auto &p : at) CHECK(cudaMalloc(&p, bytes));
    std::vector<unsigned> want[kernels + 1];
    for (unsigned round = 0; round < 4; round++) {
        cudaGraph_t g;
        std::vector<cudaGraphNode_t> node(kernels + 2);
        CHECK(cudaGraphCreate(&g, 0));
        CHECK(cudaGraphAddMemcpyNode1D(&node[0], g, nullptr, 0, at[0], in.data, bytes, cudaMemcpyHostToDevice));
        unsigned from[kernels + 1][2], size = n;
        for (unsigned k = 1; k <= kernels; k++) {
            from[k][0] = rnd.below(k);
            from[k][1] = rnd.below(k);
            void *args[] = {&at[k], &at[from[k][0]], &at[from[k][1]], &size, &k};
            cudaKernelNodeParams p = kernel((void *)join, args);
            cudaGraphNode_t deps[] = {node[from[k][0]], node[from[k][1]]};
            CHECK(cudaGraphAddKernelNode(&node[k], g, deps, from[k][0] == from[k][1] ? 1 : 2, &p));
        }
        CHECK(cudaGraphAddMemcpyNode1D(&node[kernels + 1], g, &node[kernels], 1, out.data, at[kernels], bytes,
                                       cudaMemcpyDeviceToHost));
        cudaGraphExec_t e = instantiate(g);
        for (unsigned r = 0; r < 3; r++) {
            in.fill();
            want[0].assign(in.data, in.data + n);
            for (unsigned k = 1; k <= kernels; k++) {
                want[k].resize(n);
                for (unsigned i = 0; i < n; i++) want[k][i] = joined(want[from[k][0]][i], want[from[k][1]][i], k);
            }
            launch(e, s);
            REQUIRE(!memcmp(out.data, want[kernels].data(), bytes));
            for (unsigned k = 0; k <= kernels; k++) {
                std::vector<unsigned> got(n);
                CHECK(cudaMemcpy(got.data(), at[k], bytes, cudaMemcpyDeviceToHost));
                REQUIRE(got == want[k]);
            }
        }
        CHECK(cudaGraphExecDestroy(e));
        CHECK(cudaGraphDestroy(g));
    }
    for (auto p : at) CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(s));
    printf("webs of %u kernels: right\n", kernels);
}

int main() {
    openDevice();
    linear("pinned", true, cudaStreamCaptureModeGlobal);
    linear("pageable", false, cudaStreamCaptureModeThreadLocal);
    queued();
    forkJoin();
    manual();
    update();
    hosts();
    children();
    rows();
    events();
    memory();
    extend();
    webs();
    return 0;
}
