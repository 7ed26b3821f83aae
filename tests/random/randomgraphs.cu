// SPDX-License-Identifier: Apache-2.0
// Random calls about graphs: nodes by hand, read, changed, cloned, destroyed, instantiated and updated, right and wrong.
#include "randomcalls.h"
#include <algorithm>

static __global__ void one(unsigned *out, unsigned value) { *out = value; }
static __global__ void two(unsigned char a, double b, unsigned *out) { *out = a + unsigned(b); }

typedef CUgraphNode Node;
struct EdgeData { unsigned char from, to, type, reserved[5]; };

struct Graph {
    CUgraph graph;
    std::vector<Node> nodes;
    Node inside; // the node that it is the graph of
};
struct Exec {
    CUgraphExec exec;
    CUgraph from; // null when it is gone
};
struct Object {
    CUuserObject object;
    unsigned references;
};

static std::vector<Graph> graphs;
static std::vector<Exec> execs;
static std::vector<Object> objects;
static std::map<Node, std::vector<CUgraph>> bodies;
static CUevent events[2];
static CUfunction functions[2];
static CUcontext context;
static CUdeviceptr device[2];
static char *pinned, *plain;
static unsigned made;

static std::string fresh(const char *kind) { return kind + std::to_string(made++); }

template <typename T> static T named(T handle, const char *kind) {
    std::string s = fresh(kind);
    if (handle) names[(const void *)handle] = s;
    also("%s", s.c_str());
    return handle;
}

static Graph *find(CUgraph g) {
    for (Graph &x : graphs)
        if (x.graph == g) return &x;
    return nullptr;
}

static CUgraph anyGraph() { return graphs.empty() || rarely(25) ? nullptr : pick(graphs).graph; }

static Node nodeOf(CUgraph g) {
    Graph *x = g ? find(g) : nullptr;
    return !x || x->nodes.empty() ? nullptr : pick(x->nodes);
}

static Node anyNode() {
    if (rarely(30)) return nullptr;
    for (int i = 0; i < 4; i++)
        if (Node n = nodeOf(anyGraph())) return n;
    return nullptr;
}

// kindOf is a node's type, -1 of none.
static int kindOf(Node n) {
    CUgraphNodeType type = CUgraphNodeType(-1);
    if (n) cuGraphNodeGetType(n, &type);
    return int(type);
}

// A node of that kind mostly, if there is one.
static Node nodeOfKind(int kind) {
    std::vector<Node> all;
    for (Graph &g : graphs)
        for (Node n : g.nodes)
            if (kindOf(n) == kind) all.push_back(n);
    return all.empty() || rarely(8) ? anyNode() : pick(all);
}

static CUfunction anyFunction() { return rarely(20) ? nullptr : functions[below(2)]; }
static CUevent anyEvent() { return rarely(20) ? nullptr : events[below(2)]; }
static CUcontext anyContext() { return rarely(12) ? nullptr : context; }

static void forgetGraph(CUgraph g);

static void forgetNode(Node n) {
    names.erase((const void *)n);
    auto at = bodies.find(n);
    if (at == bodies.end()) return;
    auto list = at->second;
    bodies.erase(at);
    for (CUgraph b : list) forgetGraph(b);
}

static void forgetGraph(CUgraph g) {
    for (size_t i = 0; i < graphs.size(); i++) {
        if (graphs[i].graph != g) continue;
        Graph gone = graphs[i];
        graphs.erase(graphs.begin() + (long)i);
        for (Node n : gone.nodes) forgetNode(n);
        names.erase((const void *)g);
        for (Exec &e : execs)
            if (e.from == g) e.from = nullptr;
        return;
    }
}

static std::vector<Node> list(CUgraph g) {
    std::vector<Node> nodes(64);
    size_t n = nodes.size();
    if (cuGraphGetNodes(g, nodes.data(), &n) != CUDA_SUCCESS) n = 0;
    nodes.resize(n);
    return nodes;
}

// enter names a graph and its nodes, in the driver's order.
static void enter(CUgraph g, Node inside) {
    Graph x = {g, {}, inside};
    if (!names.count((const void *)g)) named(g, inside ? "body" : "g");
    x.nodes = list(g);
    also("[");
    for (Node n : x.nodes) {
        named(n, "n");
        printf(":%d", kindOf(n));
    }
    also("]");
    graphs.push_back(x);
    if (inside) bodies[inside].push_back(g);
    for (Node n : x.nodes) {
        CUgraph child;
        if (kindOf(n) == CU_GRAPH_NODE_TYPE_GRAPH && cuGraphChildGraphNodeGetGraph(n, &child) == CUDA_SUCCESS) enter(child, n);
    }
}

// Parameters of each kind, printed as they are made.
static void *arguments[3];
static CUdeviceptr argumentTo;
static unsigned argumentValue;
static unsigned char argumentByte;
static double argumentNumber;

static CUDA_KERNEL_NODE_PARAMS kernelParams() {
    CUDA_KERNEL_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.func = anyFunction();
    p.gridDimX = rarely(15) ? 0 : 1 + below(3), p.gridDimY = p.gridDimZ = 1;
    p.blockDimX = rarely(15) ? pick({0u, 1024u, 1025u, 4096u}) : 32, p.blockDimY = p.blockDimZ = 1;
    p.sharedMemBytes = rarely(15) ? pick({1u, 49152u, 49153u, 1u << 24}) : 0;
    argumentTo = device[0] + 4 * below(64), argumentValue = below(1000), argumentByte = (unsigned char)below(256), argumentNumber = below(100);
    if (p.func == functions[1]) arguments[0] = &argumentByte, arguments[1] = &argumentNumber, arguments[2] = &argumentTo;
    else arguments[0] = &argumentTo, arguments[1] = &argumentValue;
    p.kernelParams = rarely(20) ? nullptr : arguments;
    call("  kernel {%s %u,%u %u %s}", NM(p.func), p.gridDimX, p.blockDimX, p.sharedMemBytes, p.kernelParams ? "args" : "null");
    return p;
}

static void show(const CUDA_KERNEL_NODE_PARAMS &p) {
    also("{%s grid %u,%u,%u block %u,%u,%u shared %u", NM(p.func), p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
         p.sharedMemBytes);
    also("extra %s kern %s ctx %s", p.extra ? "some" : "null", p.kern ? "some" : "null", NM(p.ctx));
    if (!p.kernelParams) also("no args");
    else if (p.func == functions[0]) also("%s %u", WHERE(*(CUdeviceptr *)p.kernelParams[0]), *(unsigned *)p.kernelParams[1]);
    else if (p.func == functions[1])
        also("%u %g %s", *(unsigned char *)p.kernelParams[0], *(double *)p.kernelParams[1], WHERE(*(CUdeviceptr *)p.kernelParams[2]));
    also("}");
}

static void side(bool host, CUmemorytype *type, CUdeviceptr *d, void *h) {
    *type = rarely(25) ? CUmemorytype(pick({0, 5})) : host ? CU_MEMORYTYPE_HOST : rarely(4) ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
    if (*type == CU_MEMORYTYPE_HOST) *(void **)h = rarely(20) ? nullptr : pick({pinned, plain}) + 16 * below(4);
    else *d = rarely(20) ? 0 : *type == CU_MEMORYTYPE_UNIFIED && rarely(3) ? (CUdeviceptr)pinned : device[below(2)] + 16 * below(4);
}

static CUDA_MEMCPY3D copyParams() {
    CUDA_MEMCPY3D p;
    memset(&p, 0, sizeof p);
    side(rarely(3), &p.srcMemoryType, &p.srcDevice, &p.srcHost);
    side(rarely(3), &p.dstMemoryType, &p.dstDevice, &p.dstHost);
    p.WidthInBytes = rarely(15) ? 0 : 16 + below(100);
    p.Height = rarely(15) ? 0 : 1 + below(3);
    p.Depth = rarely(15) ? 0 : rarely(5) ? 2 : 1;
    p.srcPitch = rarely(4) ? 0 : 128, p.dstPitch = rarely(4) ? 0 : 128;
    p.srcHeight = rarely(4) ? 0 : 4, p.dstHeight = rarely(4) ? 0 : 4;
    p.srcXInBytes = rarely(8) ? 8 : 0, p.srcY = rarely(8) ? 1 : 0, p.dstZ = rarely(8) ? 1 : 0;
    if (rarely(30)) p.srcLOD = 1;
    call("  copy {%d %s %d %s %zux%zux%zu pitch %zu %zu height %zu %zu at %zu,%zu %zu lod %zu}", int(p.srcMemoryType),
         WHERE(p.srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p.srcHost : p.srcDevice), int(p.dstMemoryType),
         WHERE(p.dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p.dstHost : p.dstDevice), p.WidthInBytes, p.Height, p.Depth, p.srcPitch,
         p.dstPitch, p.srcHeight, p.dstHeight, p.srcXInBytes, p.srcY, p.dstZ, p.srcLOD);
    return p;
}

static void show(const CUDA_MEMCPY3D &p) {
    also("{src %d host %s device %s array %s x %zu y %zu z %zu lod %zu pitch %zu height %zu", int(p.srcMemoryType), WHERE(p.srcHost),
         WHERE(p.srcDevice), NM(p.srcArray), p.srcXInBytes, p.srcY, p.srcZ, p.srcLOD, p.srcPitch, p.srcHeight);
    also("dst %d host %s device %s array %s x %zu y %zu z %zu lod %zu pitch %zu height %zu", int(p.dstMemoryType), WHERE(p.dstHost),
         WHERE(p.dstDevice), NM(p.dstArray), p.dstXInBytes, p.dstY, p.dstZ, p.dstLOD, p.dstPitch, p.dstHeight);
    also("%zux%zux%zu}", p.WidthInBytes, p.Height, p.Depth);
}

static CUDA_MEMSET_NODE_PARAMS fillParams() {
    CUDA_MEMSET_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.elementSize = rarely(15) ? pick({0u, 3u, 8u}) : 1u << below(3);
    p.dst = rarely(20) ? 0 : rarely(10) ? (CUdeviceptr)pinned : device[below(2)] + 4 * below(8) + (rarely(15) ? 1 : 0);
    p.value = rarely(10) ? 0x12345 : below(256);
    p.width = rarely(15) ? 0 : 1 + below(16);
    p.height = rarely(15) ? 0 : rarely(2) ? 1 : 1 + below(3);
    p.pitch = rarely(3) ? 0 : rarely(15) ? 3 : 64;
    call("  fill {%s pitch %zu value %x element %u %zux%zu}", WHERE(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height);
    return p;
}

static void show(const CUDA_MEMSET_NODE_PARAMS &p) {
    also("{%s pitch %zu value %x element %u %zux%zu}", WHERE(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height);
}

static void CUDA_CB hostFunction(void *) {}
static void CUDA_CB otherFunction(void *) {}

static CUDA_HOST_NODE_PARAMS hostParams() {
    CUDA_HOST_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.fn = rarely(12) ? nullptr : rarely(2) ? hostFunction : otherFunction;
    p.userData = rarely(4) ? nullptr : (void *)(uintptr_t)below(100);
    call("  host {%s %zu}", NM((void *)p.fn), (size_t)p.userData);
    return p;
}

static void show(const CUDA_HOST_NODE_PARAMS &p) { also("{%s %zu}", NM((void *)p.fn), (size_t)p.userData); }

static CUstreamBatchMemOpParams ops[3];

static CUDA_BATCH_MEM_OP_NODE_PARAMS opParams() {
    CUDA_BATCH_MEM_OP_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    memset(ops, 0, sizeof ops);
    p.ctx = anyContext();
    p.count = rarely(10) ? 0 : 1 + below(3);
    p.paramArray = rarely(20) ? nullptr : ops;
    p.flags = rarely(20) ? 1 : 0;
    call("  ops {%s %u %s %u", NM(p.ctx), p.count, p.paramArray ? "some" : "null", p.flags);
    for (CUstreamBatchMemOpParams &o : ops) {
        o.operation = CUstreamBatchMemOpType(rarely(12) ? pick({0, 3, 6, 7, 77}) : pick({1, 2, 4, 5}));
        o.writeValue.address = rarely(20) ? 0 : device[0] + 8 * below(8) + (rarely(15) ? 2 : 0);
        o.writeValue.value64 = below(1000);
        o.writeValue.flags = rarely(10) ? pick({1u, 2u, 8u, 1u << 30}) : 0;
        also("(%d %s %u %x)", int(o.operation), WHERE(o.writeValue.address), (unsigned)o.writeValue.value64, o.writeValue.flags);
    }
    also("}");
    return p;
}

static void show(const CUDA_BATCH_MEM_OP_NODE_PARAMS &p) {
    also("{%s %u %u", NM(p.ctx), p.count, p.flags);
    for (unsigned i = 0; p.paramArray && i < p.count; i++) {
        const CUstreamBatchMemOpParams &o = p.paramArray[i];
        also("(%d %s %llu %x)", int(o.operation), WHERE(o.writeValue.address), (unsigned long long)o.writeValue.value64, o.writeValue.flags);
    }
    also("}");
}

// Adding nodes.
static std::vector<Node> dependencies;

static void chooseDependencies(CUgraph g) {
    dependencies.clear();
    Graph *x = g ? find(g) : nullptr;
    unsigned n = below(3);
    for (unsigned i = 0; i < n && x; i++) {
        Node d = nodeOf(g);
        if (d && (rarely(25) || std::find(dependencies.begin(), dependencies.end(), d) == dependencies.end())) dependencies.push_back(d);
    }
    if (rarely(40)) dependencies.push_back(nullptr);
    if (rarely(40))
        if (Node other = anyNode()) dependencies.push_back(other);
}

static void showDependencies() {
    also("(");
    for (Node n : dependencies) also("%s", NM(n));
    also(")");
}

static void added(CUresult r, CUgraph g, Node n) {
    ended(r);
    if (r != CUDA_SUCCESS) return;
    named(n, "n");
    find(g)->nodes.push_back(n);
    CUgraph child;
    if (kindOf(n) == CU_GRAPH_NODE_TYPE_GRAPH && cuGraphChildGraphNodeGetGraph(n, &child) == CUDA_SUCCESS) enter(child, n);
}

static CUgraph childFor(CUgraph g) {
    for (int i = 0; i < 5; i++) {
        CUgraph c = anyGraph();
        Graph *x = c ? find(c) : nullptr;
        if (c != g && (!x || x->nodes.size() < 6)) return c;
    }
    return nullptr;
}

static const int kinds[] = {0, 1, 2, 3, 4, 5, 6, 7, 12};

static void add() {
    CUgraph g = anyGraph();
    if (g && find(g)->nodes.size() > 10) return;
    chooseDependencies(g);
    const Node *d = dependencies.empty() ? nullptr : dependencies.data();
    size_t count = dependencies.size();
    if (rarely(60)) d = nullptr, count = 1;
    Node n = nullptr, *out = rarely(50) ? nullptr : &n;
    int kind = pick(kinds);
    if (kind == 4 && g && find(g)->inside) return; // it might be in the one that it is to be in
    CUresult r;
#define ADD(function, ...) \
    call(#function " %s%s", NM(g), out ? "" : " to null"), showDependencies(), r = function(out, g, d, count, ##__VA_ARGS__)
    if (kind == 0) {
        CUDA_KERNEL_NODE_PARAMS p = kernelParams();
        ADD(cuGraphAddKernelNode, rarely(40) ? nullptr : &p);
    } else if (kind == 1) {
        CUDA_MEMCPY3D p = copyParams();
        CUcontext c = anyContext();
        ADD(cuGraphAddMemcpyNode, &p, c);
        also("in %s", NM(c));
    } else if (kind == 2) {
        CUDA_MEMSET_NODE_PARAMS p = fillParams();
        CUcontext c = anyContext();
        ADD(cuGraphAddMemsetNode, &p, c);
        also("in %s", NM(c));
    } else if (kind == 3) {
        CUDA_HOST_NODE_PARAMS p = hostParams();
        ADD(cuGraphAddHostNode, &p);
    } else if (kind == 4) {
        CUgraph child = childFor(g);
        call("  child %s", NM(child));
        ADD(cuGraphAddChildGraphNode, child);
    } else if (kind == 5) {
        ADD(cuGraphAddEmptyNode);
    } else if (kind == 6) {
        CUevent e = anyEvent();
        call("  event %s", NM(e));
        ADD(cuGraphAddEventWaitNode, e);
    } else if (kind == 7) {
        CUevent e = anyEvent();
        call("  event %s", NM(e));
        ADD(cuGraphAddEventRecordNode, e);
    } else {
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = opParams();
        ADD(cuGraphAddBatchMemOpNode, &p);
    }
    added(r, g, n);
}

// The general form of parameters.
static CUgraphNodeParams params(int kind, CUgraph g) {
    CUgraphNodeParams p;
    memset(&p, 0, sizeof p);
    p.type = CUgraphNodeType(rarely(25) ? pick({-1, 14, 99}) : kind);
    switch (kind) {
    case 0: {
        CUDA_KERNEL_NODE_PARAMS k = kernelParams();
        memcpy(&p.kernel, &k, sizeof k);
        break;
    }
    case 1:
        p.memcpy.copyParams = copyParams();
        p.memcpy.copyCtx = anyContext();
        also("in %s", NM(p.memcpy.copyCtx));
        if (rarely(20)) p.memcpy.flags = 1, also("flags 1");
        break;
    case 2: {
        CUDA_MEMSET_NODE_PARAMS f = fillParams();
        memcpy(&p.memset, &f, sizeof f);
        p.memset.ctx = anyContext();
        also("in %s", NM(p.memset.ctx));
        break;
    }
    case 3: {
        CUDA_HOST_NODE_PARAMS h = hostParams();
        p.host.fn = h.fn, p.host.userData = h.userData;
        break;
    }
    case 4:
        p.graph.graph = childFor(g);
        call("  child %s", NM(p.graph.graph));
        break;
    case 6:
    case 7:
        p.eventRecord.event = anyEvent();
        call("  event %s", NM(p.eventRecord.event));
        break;
    case 12: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS o = opParams();
        p.memOp.ctx = o.ctx, p.memOp.count = o.count, p.memOp.paramArray = o.paramArray, p.memOp.flags = o.flags;
        break;
    }
    }
    if (rarely(40)) p.reserved0[0] = 1, also("reserved0");
    if (rarely(40)) p.reserved2 = 1, also("reserved2");
    return p;
}

static void addGeneral() {
    static auto addNode = get<CUresult(Node *, CUgraph, const Node *, const EdgeData *, size_t, CUgraphNodeParams *)>("cuGraphAddNode", 12030);
    CUgraph g = anyGraph();
    if (g && find(g)->nodes.size() > 10) return;
    chooseDependencies(g);
    std::vector<EdgeData> data(dependencies.size() + 1);
    memset(data.data(), 0, data.size() * sizeof(EdgeData));
    bool edges = rarely(4);
    if (edges && rarely(3)) data[0].type = (unsigned char)below(3), data[0].from = (unsigned char)below(4);
    if (edges && rarely(10)) data[0].reserved[1] = 1;
    int kind = pick(kinds);
    if (kind == 4 && g && find(g)->inside) return;
    CUgraphNodeParams p = params(kind, g);
    Node n = nullptr;
    call("cuGraphAddNode %s type %d%s%d%d%d", NM(g), int(p.type), edges ? " edges " : " ", data[0].type, data[0].from, data[0].reserved[1]);
    showDependencies();
    CUresult r = addNode(&n, g, dependencies.empty() ? nullptr : dependencies.data(), edges ? data.data() : nullptr, dependencies.size(),
                         rarely(50) ? nullptr : &p);
    added(r, g, n);
}

// Reading nodes' parameters.
template <typename P> static void getParams(const char *what, CUresult(CUDAAPI *function)(Node, P *), int kind) {
    Node n = nodeOfKind(kind);
    P p;
    memset(&p, 0, sizeof p);
    bool null = rarely(40);
    call("%s %s:%d%s", what, NM(n), kindOf(n), null ? " to null" : "");
    if (ended(function(n, null ? nullptr : &p)) == CUDA_SUCCESS) show(p);
}
#define GET(function, kind) getParams(#function, function, kind)

static void show(CUevent e) { also("%s", NM(e)); }
static void show(CUgraph g) { also("%s", NM(g)); }

static void readNode() {
    switch (below(8)) {
    case 0: return GET(cuGraphKernelNodeGetParams, 0);
    case 1: return GET(cuGraphMemcpyNodeGetParams, 1);
    case 2: return GET(cuGraphMemsetNodeGetParams, 2);
    case 3: return GET(cuGraphHostNodeGetParams, 3);
    case 4: return GET(cuGraphChildGraphNodeGetGraph, 4);
    case 5: return GET(cuGraphEventWaitNodeGetEvent, 6);
    case 6: return GET(cuGraphEventRecordNodeGetEvent, 7);
    default: return GET(cuGraphBatchMemOpNodeGetParams, 12);
    }
}

static void setNode() {
    Node n;
    CUresult r;
#define SET(function, kind, value) n = nodeOfKind(kind), call(#function " %s:%d", NM(n), kindOf(n)), r = function(n, value), ended(r)
    switch (below(8)) {
    case 0: {
        CUDA_KERNEL_NODE_PARAMS p = kernelParams();
        SET(cuGraphKernelNodeSetParams, 0, rarely(40) ? nullptr : &p);
        break;
    }
    case 1: {
        CUDA_MEMCPY3D p = copyParams();
        SET(cuGraphMemcpyNodeSetParams, 1, rarely(40) ? nullptr : &p);
        break;
    }
    case 2: {
        CUDA_MEMSET_NODE_PARAMS p = fillParams();
        SET(cuGraphMemsetNodeSetParams, 2, rarely(40) ? nullptr : &p);
        break;
    }
    case 3: {
        CUDA_HOST_NODE_PARAMS p = hostParams();
        SET(cuGraphHostNodeSetParams, 3, rarely(40) ? nullptr : &p);
        break;
    }
    case 4: {
        CUevent e = anyEvent();
        call("  event %s", NM(e));
        SET(cuGraphEventWaitNodeSetEvent, 6, e);
        break;
    }
    case 5: {
        CUevent e = anyEvent();
        call("  event %s", NM(e));
        SET(cuGraphEventRecordNodeSetEvent, 7, e);
        break;
    }
    case 6: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = opParams();
        SET(cuGraphBatchMemOpNodeSetParams, 12, rarely(40) ? nullptr : &p);
        break;
    }
    default: {
        int kind = pick({0, 1, 2, 3, 6, 7, 12});
        CUgraphNodeParams p = params(kind, nullptr);
        SET(cuGraphNodeSetParams, kind, rarely(40) ? nullptr : &p);
    }
    }
}

// An executable graph and a node of the graph that it was made of, mostly.
static CUgraphExec chooseExec(Node *n, int kind) {
    Exec e = execs.empty() || rarely(30) ? Exec{nullptr, nullptr} : pick(execs);
    *n = nullptr;
    Graph *g = e.from ? find(e.from) : nullptr;
    std::vector<Node> all;
    if (g)
        for (Node x : g->nodes)
            if (kindOf(x) == kind) all.push_back(x);
    *n = rarely(10) || all.empty() ? anyNode() : pick(all);
    return e.exec;
}

static void setExec() {
    Node n;
    CUgraphExec e;
    CUresult r;
#define EXEC(function, kind, ...) \
    e = chooseExec(&n, kind), call(#function " %s %s:%d", NM(e), NM(n), kindOf(n)), r = function(e, n, ##__VA_ARGS__), ended(r)
    switch (below(10)) {
    case 0: {
        CUDA_KERNEL_NODE_PARAMS p = kernelParams();
        EXEC(cuGraphExecKernelNodeSetParams, 0, rarely(40) ? nullptr : &p);
        break;
    }
    case 1: {
        CUDA_MEMCPY3D p = copyParams();
        CUcontext c = anyContext();
        EXEC(cuGraphExecMemcpyNodeSetParams, 1, &p, c);
        also("in %s", NM(c));
        break;
    }
    case 2: {
        CUDA_MEMSET_NODE_PARAMS p = fillParams();
        CUcontext c = anyContext();
        EXEC(cuGraphExecMemsetNodeSetParams, 2, &p, c);
        also("in %s", NM(c));
        break;
    }
    case 3: {
        CUDA_HOST_NODE_PARAMS p = hostParams();
        EXEC(cuGraphExecHostNodeSetParams, 3, &p);
        break;
    }
    case 4: {
        CUgraph child = rarely(3) ? childFor(nullptr) : nullptr;
        e = chooseExec(&n, 4);
        if (!child && bodies.count(n)) child = bodies[n][0];
        call("cuGraphExecChildGraphNodeSetParams %s %s:%d %s", NM(e), NM(n), kindOf(n), NM(child));
        ended(cuGraphExecChildGraphNodeSetParams(e, n, child));
        break;
    }
    case 5: {
        CUevent v = anyEvent();
        call("  event %s", NM(v));
        EXEC(cuGraphExecEventWaitNodeSetEvent, 6, v);
        break;
    }
    case 6: {
        CUevent v = anyEvent();
        call("  event %s", NM(v));
        EXEC(cuGraphExecEventRecordNodeSetEvent, 7, v);
        break;
    }
    case 7: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = opParams();
        EXEC(cuGraphExecBatchMemOpNodeSetParams, 12, &p);
        break;
    }
    case 8: {
        int kind = pick(kinds);
        unsigned on = rarely(10) ? 2 : below(2);
        call("  enabled %u", on);
        EXEC(cuGraphNodeSetEnabled, kind, on);
        unsigned is = 9;
        EXEC(cuGraphNodeGetEnabled, kind, &is);
        if (r == CUDA_SUCCESS) also("%u", is);
        break;
    }
    default: {
        int kind = pick({0, 1, 2, 3, 6, 7, 12});
        CUgraphNodeParams p = params(kind, nullptr);
        EXEC(cuGraphExecNodeSetParams, kind, rarely(40) ? nullptr : &p);
    }
    }
}

// Lists, which are asked for in part, too.
static void showList(const std::vector<Node> &nodes, size_t n) {
    also("%zu:", n);
    for (Node x : nodes) also("%s", x == (Node)1 ? "-" : NM(x));
}

static void lists() {
    typedef CUresult EdgesV1(CUgraph, Node *, Node *, size_t *);
    typedef CUresult EdgesV2(CUgraph, Node *, Node *, EdgeData *, size_t *);
    typedef CUresult NodesV1(Node, Node *, size_t *);
    typedef CUresult NodesV2(Node, Node *, EdgeData *, size_t *);
    static auto edges1 = get<EdgesV1>("cuGraphGetEdges", 10000);
    static auto edges2 = get<EdgesV2>("cuGraphGetEdges", 12030);
    static auto before1 = get<NodesV1>("cuGraphNodeGetDependencies", 10000), after1 = get<NodesV1>("cuGraphNodeGetDependentNodes", 10000);
    static auto before2 = get<NodesV2>("cuGraphNodeGetDependencies", 12030), after2 = get<NodesV2>("cuGraphNodeGetDependentNodes", 12030);
    size_t room = rarely(3) ? below(4) : 12, n = room;
    std::vector<Node> a(room, (Node)1), b(room, (Node)1);
    std::vector<EdgeData> data(room);
    bool null = rarely(4);
    Node *to = null ? nullptr : a.data();
    size_t *count = rarely(40) ? nullptr : &n;
    CUgraph g = anyGraph();
    Node x = anyNode();
    CUresult r;
    const char *ask = str(std::string(null ? " null" : "") + (count ? "" : " no count") + " room " + std::to_string(room));
    switch (below(8)) {
    case 0: call("cuGraphGetNodes %s%s", NM(g), ask), r = cuGraphGetNodes(g, to, count); break;
    case 1: call("cuGraphGetRootNodes %s%s", NM(g), ask), r = cuGraphGetRootNodes(g, to, count); break;
    case 2: call("cuGraphGetEdges %s%s", NM(g), ask), r = edges1(g, to, null ? nullptr : b.data(), count); break;
    case 3: call("cuGraphGetEdges_v2 %s%s", NM(g), ask), r = edges2(g, to, null ? nullptr : b.data(), null ? nullptr : data.data(), count); break;
    case 4: call("cuGraphNodeGetDependencies %s%s", NM(x), ask), r = before1(x, to, count); break;
    case 5: call("cuGraphNodeGetDependentNodes %s%s", NM(x), ask), r = after1(x, to, count); break;
    case 6: call("cuGraphNodeGetDependencies_v2 %s%s", NM(x), ask), r = before2(x, to, null ? nullptr : data.data(), count); break;
    default: call("cuGraphNodeGetDependentNodes_v2 %s%s", NM(x), ask), r = after2(x, to, null ? nullptr : data.data(), count); break;
    }
    if (ended(r) != CUDA_SUCCESS) return;
    also("%zu", n);
    if (!null) showList(a, n), showList(b, n);
}

static void edges() {
    typedef CUresult V1(CUgraph, const Node *, const Node *, size_t);
    static auto addV1 = get<V1>("cuGraphAddDependencies", 10000), removeV1 = get<V1>("cuGraphRemoveDependencies", 10000);
    CUgraph g = anyGraph();
    size_t n = rarely(10) ? 0 : 1 + below(2);
    Node from[2], to[2];
    for (int i = 0; i < 2; i++) {
        from[i] = rarely(40) ? anyNode() : nodeOf(g);
        to[i] = rarely(40) ? anyNode() : nodeOf(g);
    }
    bool adds = !rarely(3), null = rarely(40);
    call("%s %s %zu %s-%s %s-%s%s", adds ? "cuGraphAddDependencies" : "cuGraphRemoveDependencies", NM(g), n, NM(from[0]), NM(to[0]), NM(from[1]),
         NM(to[1]), null ? " null" : "");
    ended((adds ? addV1 : removeV1)(g, null ? nullptr : from, to, n));
}

static void kernelAttributes() {
    CUlaunchAttributeValue v;
    memset(&v, 0, sizeof v);
    Node n = nodeOfKind(0), m = nodeOfKind(0);
    int id = rarely(10) ? pick({-1, 17, 40, 1000}) : (int)below(17);
    if (id == 7 || id == 12) id = 2; // their values are handles
    switch (below(3)) {
    case 0:
        if (id == 4) v.clusterDim.x = below(4), v.clusterDim.y = v.clusterDim.z = 1;
        else if (id != 1) *(int *)&v = rarely(8) ? pick({-1, 3, 77}) : (int)below(3);
        if (id == 13) v.pad[0] = 0;
        call("cuGraphKernelNodeSetAttribute %s:%d %d %d", NM(n), kindOf(n), id, *(int *)&v);
        ended(cuGraphKernelNodeSetAttribute(n, CUkernelNodeAttrID(id), rarely(40) ? nullptr : &v));
        break;
    case 1:
        call("cuGraphKernelNodeGetAttribute %s:%d %d", NM(n), kindOf(n), id);
        if (ended(cuGraphKernelNodeGetAttribute(n, CUkernelNodeAttrID(id), rarely(40) ? nullptr : &v)) != CUDA_SUCCESS) break;
        for (int i = 0; i < 4; i++) also("%d", ((int *)&v)[i]);
        break;
    default:
        call("cuGraphKernelNodeCopyAttributes %s:%d %s:%d", NM(n), kindOf(n), NM(m), kindOf(m));
        ended(cuGraphKernelNodeCopyAttributes(n, m));
    }
}

static void whole() {
    CUgraph g = nullptr, h = anyGraph();
    switch (below(5)) {
    case 0:
    case 1: {
        if (graphs.size() > 6) return;
        unsigned flags = rarely(20) ? 1 + below(3) : 0;
        call("cuGraphCreate %u", flags);
        if (ended(cuGraphCreate(rarely(50) ? nullptr : &g, flags)) == CUDA_SUCCESS) enter(g, nullptr);
        break;
    }
    case 2:
        if (graphs.size() > 8) return;
        call("cuGraphClone %s", NM(h));
        if (ended(cuGraphClone(rarely(50) ? nullptr : &g, h)) == CUDA_SUCCESS) enter(g, nullptr);
        break;
    case 3: {
        Node n = anyNode(), found = nullptr;
        call("cuGraphNodeFindInClone %s %s", NM(n), NM(h));
        if (ended(cuGraphNodeFindInClone(&found, n, h)) == CUDA_SUCCESS) also("%s", NM(found));
        break;
    }
    default:
        if (h && (find(h)->inside || !rarely(3))) return;
        call("cuGraphDestroy %s", NM(h));
        if (ended(cuGraphDestroy(h)) == CUDA_SUCCESS) forgetGraph(h);
    }
}

static void oneNode() {
    Node n = anyNode();
    CUgraphNodeType type;
    if (!rarely(3)) {
        call("cuGraphNodeGetType %s", NM(n));
        if (ended(cuGraphNodeGetType(n, rarely(20) ? nullptr : &type)) == CUDA_SUCCESS) also("%d", int(type));
        return;
    }
    call("cuGraphDestroyNode %s:%d", NM(n), kindOf(n));
    if (ended(cuGraphDestroyNode(n)) != CUDA_SUCCESS) return;
    forgetNode(n);
    for (Graph &g : graphs) g.nodes.erase(std::remove(g.nodes.begin(), g.nodes.end(), n), g.nodes.end());
    // Executable graphs know the node no more.
    for (Exec &e : execs) e.from = nullptr;
}

static const char *updateName(int r) {
    static const char *const all[] = {"success", "error", "topology", "type", "function type", "parameters", "not supported", "function change", "attributes"};
    return r >= 0 && r < 9 ? all[r] : "other";
}

static void instances() {
    CUgraph g = anyGraph();
    CUgraphExec e = nullptr;
    unsigned long long flags = rarely(4) ? pick({1ull, 2ull, 8ull, 4ull, 16ull, 1ull << 32, 5ull}) : 0;
    unsigned which = below(6);
    if (which < 3 && execs.size() > 4) which = 5;
    switch (which) {
    case 0:
        call("cuGraphInstantiateWithFlags %s %llu", NM(g), flags);
        if (ended(cuGraphInstantiateWithFlags(rarely(50) ? nullptr : &e, g, flags)) == CUDA_SUCCESS) execs.push_back({named(e, "e"), g});
        break;
    case 1: {
        static auto old = get<CUresult(CUgraphExec *, CUgraph, Node *, char *, size_t)>("cuGraphInstantiate", 11000);
        Node bad = (Node)1;
        char log[200] = "x";
        call("cuGraphInstantiate_v2 %s", NM(g));
        CUresult r = ended(old(&e, g, &bad, log, sizeof log));
        also("node %s log %zu", bad == (Node)1 ? "-" : NM(bad), strlen(log));
        if (r == CUDA_SUCCESS) execs.push_back({named(e, "e"), g});
        break;
    }
    case 2: {
        CUDA_GRAPH_INSTANTIATE_PARAMS p;
        memset(&p, 0, sizeof p);
        p.flags = flags;
        p.result_out = CUgraphInstantiateResult(99), p.hErrNode_out = (Node)1;
        call("cuGraphInstantiateWithParams %s %llu", NM(g), flags);
        CUresult r = ended(cuGraphInstantiateWithParams(&e, g, &p));
        also("result %d node %s", int(p.result_out), p.hErrNode_out == (Node)1 ? "-" : NM(p.hErrNode_out));
        if (r == CUDA_SUCCESS) execs.push_back({named(e, "e"), g});
        break;
    }
    case 3: {
        CUgraphExecUpdateResultInfo info;
        memset(&info, 0x11, sizeof info);
        Exec x = execs.empty() || rarely(30) ? Exec{nullptr, nullptr} : pick(execs);
        CUgraph by = x.from && !rarely(4) ? x.from : g;
        call("cuGraphExecUpdate %s %s", NM(x.exec), NM(by));
        ended(cuGraphExecUpdate(x.exec, by, rarely(30) ? nullptr : &info));
        also("%s %s %s", int(info.result) == 0x11111111 ? "-" : updateName(info.result),
             (uint64_t)info.errorNode == 0x1111111111111111ull ? "-" : NM(info.errorNode),
             (uint64_t)info.errorFromNode == 0x1111111111111111ull ? "-" : NM(info.errorFromNode));
        break;
    }
    case 4: {
        Exec x = execs.empty() || rarely(30) ? Exec{nullptr, nullptr} : pick(execs);
        cuuint64_t f = 99;
        call("cuGraphExecGetFlags %s", NM(x.exec));
        if (ended(cuGraphExecGetFlags(x.exec, rarely(20) ? nullptr : &f)) == CUDA_SUCCESS) also("%llu", (unsigned long long)f);
        break;
    }
    default: {
        size_t i = below((unsigned)execs.size());
        CUgraphExec x = execs.empty() || rarely(10) ? nullptr : execs[i].exec;
        call("cuGraphExecDestroy %s", NM(x));
        if (ended(cuGraphExecDestroy(x)) == CUDA_SUCCESS && x) names.erase((void *)x), execs.erase(execs.begin() + (long)i);
    }
    }
}

static void CUDA_CB destroyed(void *) {}

static void userObjects() {
    Object *o = objects.empty() || rarely(15) ? nullptr : &objects[below((unsigned)objects.size())];
    CUuserObject x = o ? o->object : nullptr;
    CUgraph g = anyGraph();
    unsigned n = rarely(10) ? pick({0u, 0x80000000u}) : 1 + below(2);
    switch (below(5)) {
    case 0: {
        unsigned flags = rarely(8) ? pick({0u, 2u, 3u}) : 1;
        CUuserObject made = nullptr;
        call("cuUserObjectCreate %u %u", n, flags);
        if (ended(cuUserObjectCreate(rarely(30) ? nullptr : &made, nullptr, rarely(20) ? nullptr : destroyed, n, flags)) == CUDA_SUCCESS)
            objects.push_back({named(made, "o"), n});
        break;
    }
    case 1:
        call("cuUserObjectRetain %s %u", NM(x), n);
        if (ended(cuUserObjectRetain(x, n)) == CUDA_SUCCESS) o->references += n;
        break;
    case 2:
        if (o && o->references <= n) return;
        call("cuUserObjectRelease %s %u", NM(x), n);
        if (ended(cuUserObjectRelease(x, n)) == CUDA_SUCCESS) o->references -= n;
        break;
    case 3: {
        unsigned flags = rarely(8) ? 2 : 0;
        call("cuGraphRetainUserObject %s %s %u %u", NM(g), NM(x), n, flags);
        ended(cuGraphRetainUserObject(g, x, n, flags));
        break;
    }
    default:
        if (x && g) return;
        call("cuGraphReleaseUserObject %s %s %u", NM(g), NM(x), n);
        ended(cuGraphReleaseUserObject(g, x, n));
    }
}

static void conditional() {
    CUgraph g = anyGraph();
    CUgraphConditionalHandle h = 0;
    unsigned value = below(3), flags = rarely(5) ? below(4) : below(2);
    CUcontext c = anyContext();
    call("cuGraphConditionalHandleCreate %s %s %u %u", NM(g), NM(c), value, flags);
    ended(cuGraphConditionalHandleCreate(rarely(40) ? nullptr : &h, g, c, value, flags));
}

static void deviceMemory() {
    int attribute = (int)below(5);
    cuuint64_t v = 99;
    int d = rarely(10) ? 7 : 0;
    switch (below(3)) {
    case 0:
        call("cuDeviceGetGraphMemAttribute %d %d", d, attribute);
        if (ended(cuDeviceGetGraphMemAttribute(d, CUgraphMem_attribute(attribute), &v)) == CUDA_SUCCESS) also("%llu", (unsigned long long)v);
        break;
    case 1:
        v = rarely(2) ? 0 : below(100);
        call("cuDeviceSetGraphMemAttribute %d %d %llu", d, attribute, (unsigned long long)v);
        ended(cuDeviceSetGraphMemAttribute(d, CUgraphMem_attribute(attribute), &v));
        break;
    default: call("cuDeviceGraphMemTrim %d", d), ended(cuDeviceGraphMemTrim(d));
    }
}

static void sequence() {
    made = 0;
    CUgraph g;
    call("cuGraphCreate");
    CHECKCU(cuGraphCreate(&g, 0));
    enter(g, nullptr);
    for (int i = 0; i < 60; i++) {
        unsigned k = below(100);
        if (k < 22) add();
        else if (k < 30) addGeneral();
        else if (k < 42) readNode();
        else if (k < 51) setNode();
        else if (k < 63) setExec();
        else if (k < 69) lists();
        else if (k < 73) edges();
        else if (k < 77) kernelAttributes();
        else if (k < 84) whole();
        else if (k < 87) oneNode();
        else if (k < 94) instances();
        else if (k < 96) userObjects();
        else if (k < 98) conditional();
        else deviceMemory();
    }
    for (Exec &e : execs) cuGraphExecDestroy(e.exec);
    while (!graphs.empty()) {
        size_t i = 0;
        while (graphs[i].inside) i++;
        CUgraph x = graphs[i].graph;
        cuGraphDestroy(x);
        forgetGraph(x);
    }
    for (Object &o : objects) cuUserObjectRelease(o.object, o.references);
    execs.clear(), objects.clear(), bodies.clear();
}

int main(int argc, char **argv) {
    openDevice();
    CHECKCU(cuCtxGetCurrent(&context));
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&functions[0], (const void *)one));
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&functions[1], (const void *)two));
    for (int i = 0; i < 2; i++) {
        CHECKCU(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        CHECKCU(cuMemAlloc(&device[i], 4096));
        region(device[i], 4096, "device" + std::to_string(i));
        names[events[i]] = "event" + std::to_string(i);
        names[functions[i]] = "function" + std::to_string(i);
    }
    CHECK(cudaMallocHost(&pinned, 4096));
    plain = (char *)malloc(4096);
    region(pinned, 4096, "pinned"), region(plain, 4096, "plain");
    names[context] = "context";
    names[(void *)hostFunction] = "fn0", names[(void *)otherFunction] = "fn1";
    return sequences(argc, argv, 20, sequence);
}
