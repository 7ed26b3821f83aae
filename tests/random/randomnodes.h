// SPDX-License-Identifier: Apache-2.0
// The graphs of randomgraphs.cu, what their nodes are given, and how they are added.
#ifndef RANDOMNODES_H
#define RANDOMNODES_H

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
    named(g, inside ? "body" : "g");
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
        if (kindOf(n) == CU_GRAPH_NODE_TYPE_GRAPH &&
            cuGraphChildGraphNodeGetGraph(n, &child) == CUDA_SUCCESS)
            enter(child, n);
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
    argumentTo = device[0] + 4 * below(64), argumentValue = below(1000),
    argumentByte = (unsigned char)below(256), argumentNumber = below(100);
    if (p.func == functions[1])
        arguments[0] = &argumentByte, arguments[1] = &argumentNumber, arguments[2] = &argumentTo;
    else arguments[0] = &argumentTo, arguments[1] = &argumentValue;
    p.kernelParams = rarely(20) ? nullptr : arguments;
    call("  kernel {%s %u,%u %u %s}", NM(p.func), p.gridDimX, p.blockDimX, p.sharedMemBytes,
         p.kernelParams ? "args" : "null");
    return p;
}

static void show(const CUDA_KERNEL_NODE_PARAMS &p) {
    also("{%s grid %u,%u,%u block %u,%u,%u shared %u", NM(p.func), p.gridDimX, p.gridDimY,
         p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes);
    also("extra %s kern %s ctx %s", p.extra ? "some" : "null", p.kern ? "some" : "null", NM(p.ctx));
    if (!p.kernelParams) also("no args");
    else if (p.func == functions[0])
        also("%s %u", WHERE(*(CUdeviceptr *)p.kernelParams[0]), *(unsigned *)p.kernelParams[1]);
    else if (p.func == functions[1])
        also("%u %g %s", *(unsigned char *)p.kernelParams[0], *(double *)p.kernelParams[1],
             WHERE(*(CUdeviceptr *)p.kernelParams[2]));
    also("}");
}

static void side(bool host, CUmemorytype *type, CUdeviceptr *d, void *h) {
    *type = rarely(25)  ? CUmemorytype(pick({0, 5}))
            : host      ? CU_MEMORYTYPE_HOST
            : rarely(4) ? CU_MEMORYTYPE_UNIFIED
                        : CU_MEMORYTYPE_DEVICE;
    if (*type == CU_MEMORYTYPE_HOST)
        *(void **)h = rarely(20) ? nullptr : pick({pinned, plain}) + 16 * below(4);
    else
        *d = rarely(20)                                    ? 0
             : *type == CU_MEMORYTYPE_UNIFIED && rarely(3) ? (CUdeviceptr)pinned
                                                           : device[below(2)] + 16 * below(4);
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
    call("  copy {%d %s %d %s %zux%zux%zu pitch %zu %zu height %zu %zu at %zu,%zu %zu lod %zu}",
         int(p.srcMemoryType),
         WHERE(p.srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p.srcHost : p.srcDevice),
         int(p.dstMemoryType),
         WHERE(p.dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p.dstHost : p.dstDevice),
         p.WidthInBytes, p.Height, p.Depth, p.srcPitch, p.dstPitch, p.srcHeight, p.dstHeight,
         p.srcXInBytes, p.srcY, p.dstZ, p.srcLOD);
    return p;
}

static void show(const CUDA_MEMCPY3D &p) {
    also("{src %d host %s device %s array %s x %zu y %zu z %zu lod %zu pitch %zu height %zu",
         int(p.srcMemoryType), WHERE(p.srcHost), WHERE(p.srcDevice), NM(p.srcArray), p.srcXInBytes,
         p.srcY, p.srcZ, p.srcLOD, p.srcPitch, p.srcHeight);
    also("dst %d host %s device %s array %s x %zu y %zu z %zu lod %zu pitch %zu height %zu",
         int(p.dstMemoryType), WHERE(p.dstHost), WHERE(p.dstDevice), NM(p.dstArray), p.dstXInBytes,
         p.dstY, p.dstZ, p.dstLOD, p.dstPitch, p.dstHeight);
    also("%zux%zux%zu}", p.WidthInBytes, p.Height, p.Depth);
}

static CUDA_MEMSET_NODE_PARAMS fillParams() {
    CUDA_MEMSET_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.elementSize = rarely(15) ? pick({0u, 3u, 8u}) : 1u << below(3);
    p.dst = rarely(20)   ? 0
            : rarely(10) ? (CUdeviceptr)pinned
                         : device[below(2)] + 4 * below(8) + (rarely(15) ? 1 : 0);
    p.value = rarely(10) ? 0x12345 : below(256);
    p.width = rarely(15) ? 0 : 1 + below(16);
    p.height = rarely(15) ? 0 : rarely(2) ? 1 : 1 + below(3);
    p.pitch = rarely(3) ? 0 : rarely(15) ? 3 : 64;
    call("  fill {%s pitch %zu value %x element %u %zux%zu}", WHERE(p.dst), p.pitch, p.value,
         p.elementSize, p.width, p.height);
    return p;
}

static void show(const CUDA_MEMSET_NODE_PARAMS &p) {
    also("{%s pitch %zu value %x element %u %zux%zu}", WHERE(p.dst), p.pitch, p.value,
         p.elementSize, p.width, p.height);
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

static void show(const CUDA_HOST_NODE_PARAMS &p) {
    also("{%s %zu}", NM((void *)p.fn), (size_t)p.userData);
}

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
        o.operation =
            CUstreamBatchMemOpType(rarely(12) ? pick({0, 3, 6, 7, 77}) : pick({1, 2, 4, 5}));
        o.writeValue.address = rarely(20) ? 0 : device[0] + 8 * below(8) + (rarely(15) ? 2 : 0);
        o.writeValue.value64 = below(1000);
        o.writeValue.flags = rarely(10) ? pick({1u, 2u, 8u, 1u << 30}) : 0;
        also("(%d %s %u %x)", int(o.operation), WHERE(o.writeValue.address),
             (unsigned)o.writeValue.value64, o.writeValue.flags);
    }
    also("}");
    return p;
}

static void show(const CUDA_BATCH_MEM_OP_NODE_PARAMS &p) {
    also("{%s %u %u", NM(p.ctx), p.count, p.flags);
    for (unsigned i = 0; p.paramArray && i < p.count; i++) {
        const CUstreamBatchMemOpParams &o = p.paramArray[i];
        also("(%d %s %llu %x)", int(o.operation), WHERE(o.writeValue.address),
             (unsigned long long)o.writeValue.value64, o.writeValue.flags);
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
        if (d && (rarely(25) ||
                  std::find(dependencies.begin(), dependencies.end(), d) == dependencies.end()))
            dependencies.push_back(d);
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
    if (kindOf(n) == CU_GRAPH_NODE_TYPE_GRAPH &&
        cuGraphChildGraphNodeGetGraph(n, &child) == CUDA_SUCCESS)
        enter(child, n);
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
#define ADD(function, ...)                                                                         \
    call(#function " %s%s", NM(g), out ? "" : " to null"), showDependencies(),                     \
        r = function(out, g, d, count, ##__VA_ARGS__)
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
        p.memOp.ctx = o.ctx, p.memOp.count = o.count, p.memOp.paramArray = o.paramArray,
        p.memOp.flags = o.flags;
        break;
    }
    }
    if (rarely(40)) p.reserved0[0] = 1, also("reserved0");
    if (rarely(40)) p.reserved2 = 1, also("reserved2");
    return p;
}

static void addGeneral() {
    static auto addNode =
        get<CUresult(Node *, CUgraph, const Node *, const EdgeData *, size_t, CUgraphNodeParams *)>(
            "cuGraphAddNode", 12030);
    CUgraph g = anyGraph();
    if (g && find(g)->nodes.size() > 10) return;
    chooseDependencies(g);
    std::vector<EdgeData> data(dependencies.size() + 1);
    memset(data.data(), 0, data.size() * sizeof(EdgeData));
    bool edges = rarely(4);
    if (edges && rarely(3))
        data[0].type = (unsigned char)below(3), data[0].from = (unsigned char)below(4);
    if (edges && rarely(10)) data[0].reserved[1] = 1;
    int kind = pick(kinds);
    if (kind == 4 && g && find(g)->inside) return;
    CUgraphNodeParams p = params(kind, g);
    Node n = nullptr;
    call("cuGraphAddNode %s type %d%s%d%d%d", NM(g), int(p.type), edges ? " edges " : " ",
         data[0].type, data[0].from, data[0].reserved[1]);
    showDependencies();
    CUresult r =
        addNode(&n, g, dependencies.empty() ? nullptr : dependencies.data(),
                edges ? data.data() : nullptr, dependencies.size(), rarely(50) ? nullptr : &p);
    added(r, g, n);
}

#endif
