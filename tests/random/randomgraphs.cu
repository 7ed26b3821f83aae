// SPDX-License-Identifier: Apache-2.0
// Random calls about graphs: nodes by hand, read, changed, cloned, destroyed, instantiated, updated
// and launched, right and wrong.
#include "randomchanges.h"

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
    static auto before1 = get<NodesV1>("cuGraphNodeGetDependencies", 10000),
                after1 = get<NodesV1>("cuGraphNodeGetDependentNodes", 10000);
    static auto before2 = get<NodesV2>("cuGraphNodeGetDependencies", 12030),
                after2 = get<NodesV2>("cuGraphNodeGetDependentNodes", 12030);
    size_t room = rarely(3) ? below(4) : 12, n = room;
    std::vector<Node> a(room, (Node)1), b(room, (Node)1);
    std::vector<EdgeData> data(room);
    bool null = rarely(4);
    Node *to = null ? nullptr : a.data();
    size_t *count = rarely(40) ? nullptr : &n;
    CUgraph g = anyGraph();
    Node x = anyNode();
    CUresult r;
    const char *ask = str(std::string(null ? " null" : "") + (count ? "" : " no count") + " room " +
                          std::to_string(room));
    switch (below(8)) {
    case 0: call("cuGraphGetNodes %s%s", NM(g), ask), r = cuGraphGetNodes(g, to, count); break;
    case 1:
        call("cuGraphGetRootNodes %s%s", NM(g), ask), r = cuGraphGetRootNodes(g, to, count);
        break;
    case 2:
        call("cuGraphGetEdges %s%s", NM(g), ask),
            r = edges1(g, to, null ? nullptr : b.data(), count);
        break;
    case 3:
        call("cuGraphGetEdges_v2 %s%s", NM(g), ask),
            r = edges2(g, to, null ? nullptr : b.data(), null ? nullptr : data.data(), count);
        break;
    case 4: call("cuGraphNodeGetDependencies %s%s", NM(x), ask), r = before1(x, to, count); break;
    case 5: call("cuGraphNodeGetDependentNodes %s%s", NM(x), ask), r = after1(x, to, count); break;
    case 6:
        call("cuGraphNodeGetDependencies_v2 %s%s", NM(x), ask),
            r = before2(x, to, null ? nullptr : data.data(), count);
        break;
    default:
        call("cuGraphNodeGetDependentNodes_v2 %s%s", NM(x), ask),
            r = after2(x, to, null ? nullptr : data.data(), count);
        break;
    }
    if (ended(r) != CUDA_SUCCESS) return;
    also("%zu", n);
    if (!null) showList(a, n), showList(b, n);
}

static void edges() {
    typedef CUresult V1(CUgraph, const Node *, const Node *, size_t);
    static auto addV1 = get<V1>("cuGraphAddDependencies", 10000),
                removeV1 = get<V1>("cuGraphRemoveDependencies", 10000);
    CUgraph g = anyGraph();
    size_t n = rarely(10) ? 0 : 1 + below(2);
    Node from[2], to[2];
    for (int i = 0; i < 2; i++) {
        from[i] = rarely(40) ? anyNode() : nodeOf(g);
        to[i] = rarely(40) ? anyNode() : nodeOf(g);
    }
    bool adds = !rarely(3), null = rarely(40);
    call("%s %s %zu %s-%s %s-%s%s", adds ? "cuGraphAddDependencies" : "cuGraphRemoveDependencies",
         NM(g), n, NM(from[0]), NM(to[0]), NM(from[1]), NM(to[1]), null ? " null" : "");
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
        // The driver crashes if there is no place for attribute 5.
        call("cuGraphKernelNodeGetAttribute %s:%d %d", NM(n), kindOf(n), id);
        if (ended(cuGraphKernelNodeGetAttribute(
                n, CUkernelNodeAttrID(id), rarely(40) && id != 5 ? nullptr : &v)) != CUDA_SUCCESS)
            break;
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
        if (ended(cuGraphCreate(rarely(50) ? nullptr : &g, flags)) == CUDA_SUCCESS)
            enter(g, nullptr);
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
        if (ended(cuGraphNodeGetType(n, rarely(20) ? nullptr : &type)) == CUDA_SUCCESS)
            also("%d", int(type));
        return;
    }
    call("cuGraphDestroyNode %s:%d", NM(n), kindOf(n));
    if (ended(cuGraphDestroyNode(n)) != CUDA_SUCCESS) return;
    forgetNode(n);
    for (Graph &g : graphs)
        g.nodes.erase(std::remove(g.nodes.begin(), g.nodes.end(), n), g.nodes.end());
    // Executable graphs don't know the node any more.
    for (Exec &e : execs) e.from = nullptr;
}

static const char *updateName(int r) {
    static const char *const all[] = {"success",       "error",           "topology",
                                      "type",          "function type",   "parameters",
                                      "not supported", "function change", "attributes"};
    return r >= 0 && r < 9 ? all[r] : "other";
}

static void instances() {
    CUgraph g = anyGraph();
    CUgraphExec e = nullptr;
    unsigned long long flags =
        rarely(4) ? pick({1ull, 2ull, 8ull, 4ull, 16ull, 1ull << 32, 5ull}) : 0;
    unsigned which = below(6);
    if (which < 3 && execs.size() > 4) which = 5;
    switch (which) {
    case 0:
        call("cuGraphInstantiateWithFlags %s %llu", NM(g), flags);
        if (ended(cuGraphInstantiateWithFlags(rarely(50) ? nullptr : &e, g, flags)) == CUDA_SUCCESS)
            execs.push_back({named(e, "e"), g});
        break;
    case 1: {
        static auto old = get<CUresult(CUgraphExec *, CUgraph, Node *, char *, size_t)>(
            "cuGraphInstantiate", 11000);
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
        also("result %d node %s", int(p.result_out),
             p.hErrNode_out == (Node)1 ? "-" : NM(p.hErrNode_out));
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
        if (ended(cuGraphExecGetFlags(x.exec, rarely(20) ? nullptr : &f)) == CUDA_SUCCESS)
            also("%llu", (unsigned long long)f);
        break;
    }
    default: {
        size_t i = below((unsigned)execs.size());
        CUgraphExec x = execs.empty() || rarely(10) ? nullptr : execs[i].exec;
        call("cuGraphExecDestroy %s", NM(x));
        if (ended(cuGraphExecDestroy(x)) == CUDA_SUCCESS && x)
            names.erase((void *)x), execs.erase(execs.begin() + (long)i);
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
        if (ended(cuUserObjectCreate(rarely(30) ? nullptr : &made, nullptr,
                                     rarely(20) ? nullptr : destroyed, n, flags)) == CUDA_SUCCESS)
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
        if (ended(cuDeviceGetGraphMemAttribute(d, CUgraphMem_attribute(attribute), &v)) ==
            CUDA_SUCCESS)
            also("%llu", (unsigned long long)v);
        break;
    case 1:
        v = rarely(2) ? 0 : below(100);
        call("cuDeviceSetGraphMemAttribute %d %d %llu", d, attribute, (unsigned long long)v);
        ended(cuDeviceSetGraphMemAttribute(d, CUgraphMem_attribute(attribute), &v));
        break;
    default: call("cuDeviceGraphMemTrim %d", d), ended(cuDeviceGraphMemTrim(d));
    }
}

// ends says whether a graph that is launched ends: none of its nodes waits for a value, and it has
// no body of a conditional node.
static bool ends(CUgraph g) {
    for (Node n : list(g)) {
        CUgraph child;
        int kind = kindOf(n);
        if (kind == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP || kind == CU_GRAPH_NODE_TYPE_CONDITIONAL)
            return false;
        if (kind != CU_GRAPH_NODE_TYPE_GRAPH) continue;
        if (cuGraphChildGraphNodeGetGraph(n, &child) != CUDA_SUCCESS || !ends(child)) return false;
    }
    return true;
}

// launches runs what was instantiated and ends. An error that spoils the context ends the process.
static void launches() {
    for (Exec &e : execs) {
        if (!e.from || !ends(e.from)) continue;
        call("cuGraphLaunch %s", NM(e.exec));
        if (ended(cuGraphLaunch(e.exec, nullptr)) == CUDA_SUCCESS) ended(cuStreamSynchronize(0));
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
    launches();
    for (Exec &e : execs) cuGraphExecDestroy(e.exec), names.erase((void *)e.exec);
    while (!graphs.empty()) {
        size_t i = 0;
        while (graphs[i].inside) i++;
        CUgraph x = graphs[i].graph;
        cuGraphDestroy(x);
        forgetGraph(x);
    }
    for (Object &o : objects)
        cuUserObjectRelease(o.object, o.references), names.erase((void *)o.object);
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
