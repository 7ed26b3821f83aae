// SPDX-License-Identifier: Apache-2.0
// What randomgraphs.cu has made: graphs, their nodes, and whatever these name.
#ifndef RANDOMHANDLES_H
#define RANDOMHANDLES_H

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

#endif
