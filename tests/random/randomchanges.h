// SPDX-License-Identifier: Apache-2.0
// How randomgraphs.cu reads and changes nodes, also in executable graphs.
#ifndef RANDOMCHANGES_H
#define RANDOMCHANGES_H

#include "randomnodes.h"

template <typename P>
static void getParams(const char *what, CUresult(CUDAAPI *function)(Node, P *), int kind) {
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
#define SET(function, kind, value)                                                            \
    n = nodeOfKind(kind), call(#function " %s:%d", NM(n), kindOf(n)), r = function(n, value), \
    ended(r)
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
#define EXEC(function, kind, ...)                                                   \
    e = chooseExec(&n, kind), call(#function " %s %s:%d", NM(e), NM(n), kindOf(n)), \
    r = function(e, n, ##__VA_ARGS__), ended(r)
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

#endif
