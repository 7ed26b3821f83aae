// SPDX-License-Identifier: Apache-2.0
// Builds graphs node by node, changes them, puts them into one another and lets them allocate
// memory. Every word is compared with what the host computes; words around each buffer must stay as
// they are.
#include "graphs.h"

// manual builds a graph node by node, then changes parameters of the graph and of the executable
// graph.
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
    cudaKernelNodeParams mixParams = kernel((void *)mix, mixArgs),
                         joinParams = kernel((void *)join, joinArgs);
    cudaMemsetParams set = fillOf(b.data, 100);
    CHECK(cudaGraphAddMemcpyNode1D(&load, g, nullptr, 0, a.data, in.data, bytes,
                                   cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddMemsetNode(&fill, g, nullptr, 0, &set));
    CHECK(cudaGraphAddKernelNode(&scale, g, &load, 1, &mixParams));
    cudaGraphNode_t both[] = {scale, fill};
    CHECK(cudaGraphAddKernelNode(&sum, g, both, 2, &joinParams));
    CHECK(cudaGraphAddMemcpyNode1D(&store, g, &sum, 1, out.data, c.data, bytes,
                                   cudaMemcpyDeviceToHost));
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
    REQUIRE(*(unsigned *)read.kernelParams[3] == key && read.gridDim.x == grid.x &&
            read.blockDim.x == block.x);
    REQUIRE(read.func == (void *)mix);
    printf("manual: %zu nodes, %zu roots, %zu before the sum and %zu after\n", count(g), roots,
           before, after);

    cudaGraphExec_t e = instantiate(g);
    auto run = [&](cudaGraphExec_t e, const Host &from, unsigned key, unsigned filled) {
        in.fill();
        other.fill();
        launch(e, s);
        for (unsigned i = 0; i < n; i++)
            REQUIRE(out.data[i] == joined(mixed(from.data[i], key, i), filled, joinKey));
    };
    for (unsigned r = 0; r < replays; r++) run(e, in, 21, 100);
    // The executable graph alone.
    key = 31;
    CHECK(cudaGraphExecKernelNodeSetParams(e, scale, &mixParams));
    run(e, in, 31, 100);
    set = fillOf(b.data, 300);
    CHECK(cudaGraphExecMemsetNodeSetParams(e, fill, &set));
    run(e, in, 31, 300);
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(e, load, a.data, other.data, bytes,
                                             cudaMemcpyHostToDevice));
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

static const char store[] = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .entry store(.param .u64 p, .param .u32 v)
{
    .reg .b32 %v, %t, %n, %c;
    .reg .b64 %a, %off;
    ld.param.u64 %a, [p];
    ld.param.u32 %v, [v];
    mov.u32 %t, %tid.x;
    mov.u32 %n, %ntid.x;
    mov.u32 %c, %ctaid.x;
    mad.lo.u32 %t, %c, %n, %t;
    mul.wide.u32 %off, %t, 4;
    add.u64 %a, %a, %off;
    st.global.u32 [%a], %v;
    ret;
}
)";

// kernels adds a node of a library's kernel, which it gets back under the name that runtimes know
// it by.
static void kernels() {
    Device a;
    Host out(true);
    CUlibrary library;
    CUkernel k;
    CUfunction f;
    CUgraph g;
    CUgraphNode node;
    CHECKCU(cuLibraryLoadData(&library, store, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECKCU(cuLibraryGetKernel(&k, library, "store"));
    CHECKCU(cuKernelGetFunction(&f, k));
    CHECKCU(cuGraphCreate(&g, 0));
    unsigned value = 17;
    void *args[] = {&a.data, &value};
    CUDA_KERNEL_NODE_PARAMS p = {}, read = {};
    p.gridDimX = n / 100;
    p.blockDimX = 100;
    p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = args;
    for (bool both : {true, false}) {
        p.func = both ? f : nullptr;
        p.kern = k;
        CHECKCU(cuGraphAddKernelNode(&node, g, nullptr, 0, &p));
        CHECKCU(cuGraphKernelNodeGetParams(node, &read));
        REQUIRE(read.kern == k && *(unsigned *)read.kernelParams[1] == value &&
                read.gridDimX == p.gridDimX);
    }
    cudaGraphExec_t e = instantiate(g);
    launch(e, nullptr);
    CHECK(cudaMemcpy(out.data, a.data, bytes, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < n; i++) REQUIRE(out.data[i] == value);
    printf("kernels: %zu nodes, known by name\n", count(g));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECKCU(cuLibraryUnload(library));
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
    cudaGraph_t first = one(s, a.data, 51, 0), same = one(s, a.data, 52, 0),
                longer = one(s, a.data, 53, 1), fill = one(s, a.data, 0, 0);
    cudaGraphNode_t only;
    cudaKernelNodeParams captured;
    size_t nodes = 1;
    CHECK(cudaGraphGetNodes(first, &only, &nodes));
    CHECK(cudaGraphKernelNodeGetParams(only, &captured));
    REQUIRE(captured.func == (void *)mix && *(unsigned *)captured.kernelParams[3] == 51);
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

// children embeds a graph twice, clones the whole and changes the clone.
static void children() {
    Device a;
    Host in(true), out(true);
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    cudaGraph_t inner = one(s, a.data, 71, 1), g, clone, embedded;
    cudaGraphNode_t load, first, second, between, store, found;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&load, g, nullptr, 0, a.data, in.data, bytes,
                                   cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddChildGraphNode(&first, g, &load, 1, inner));
    CHECK(cudaGraphAddEmptyNode(&between, g, &first, 1));
    CHECK(cudaGraphAddChildGraphNode(&second, g, &between, 1, inner));
    CHECK(cudaGraphAddMemcpyNode1D(&store, g, &second, 1, out.data, a.data, bytes,
                                   cudaMemcpyDeviceToHost));
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
    // A launch can't be captured. It ends the capture; the graph itself is as before, also in
    // another one.
    cudaGraph_t outer = nullptr;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    REQUIRE(cudaGraphLaunch(less, s) == cudaErrorStreamCaptureUnsupported);
    cudaStreamEndCapture(s, &outer);
    cudaGetLastError();
    if (outer) CHECK(cudaGraphDestroy(outer));
    cudaGraphNode_t only;
    cudaGraphNodeType type;
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&only, outer, nullptr, 0, clone));
    CHECK(cudaGraphNodeGetType(only, &type));
    REQUIRE(count(outer) == 1 && type == cudaGraphNodeTypeGraph);
    cudaGraphExec_t nested = instantiate(outer);
    for (auto e : {less, nested}) {
        in.fill();
        launch(e, s);
        for (unsigned i = 0; i < n; i++)
            REQUIRE(out.data[i] == mixed(mixed(in.data[i], 71, i), 71, i));
    }
    printf("children: %zu nodes in the clone\n", count(clone));
    for (auto e : {whole, less, nested}) CHECK(cudaGraphExecDestroy(e));
    for (auto x : {g, clone, outer}) CHECK(cudaGraphDestroy(x));
    CHECK(cudaStreamDestroy(s));
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
        CHECK(cudaGraphAddMemcpyNode1D(&node[0], g, nullptr, 0, at[0], in.data, bytes,
                                       cudaMemcpyHostToDevice));
        unsigned from[kernels + 1][2], size = n;
        for (unsigned k = 1; k <= kernels; k++) {
            from[k][0] = rnd.below(k);
            from[k][1] = rnd.below(k);
            void *args[] = {&at[k], &at[from[k][0]], &at[from[k][1]], &size, &k};
            cudaKernelNodeParams p = kernel((void *)join, args);
            cudaGraphNode_t deps[] = {node[from[k][0]], node[from[k][1]]};
            CHECK(cudaGraphAddKernelNode(&node[k], g, deps, from[k][0] == from[k][1] ? 1 : 2, &p));
        }
        CHECK(cudaGraphAddMemcpyNode1D(&node[kernels + 1], g, &node[kernels], 1, out.data,
                                       at[kernels], bytes, cudaMemcpyDeviceToHost));
        cudaGraphExec_t e = instantiate(g);
        for (unsigned r = 0; r < 3; r++) {
            in.fill();
            want[0].assign(in.data, in.data + n);
            for (unsigned k = 1; k <= kernels; k++) {
                want[k].resize(n);
                for (unsigned i = 0; i < n; i++)
                    want[k][i] = joined(want[from[k][0]][i], want[from[k][1]][i], k);
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
    manual();
    kernels();
    update();
    children();
    memory();
    webs();
    return 0;
}
