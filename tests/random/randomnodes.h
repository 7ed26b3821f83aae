// SPDX-License-Identifier: Apache-2.0
// How randomgraphs.cu adds nodes.
#ifndef RANDOMNODES_H
#define RANDOMNODES_H

#include "randomparameters.h"

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
