// SPDX-License-Identifier: Apache-2.0
// Calls that are wrong in two ways, or nearly right: which error each gives, and so in what order
// the driver looks at
// arguments. These are rules that sequences of random calls (tests/random) found.
#include "versions.h"
#include <string>

static CUdevice device;
static CUcontext context;
static CUdeviceptr memory;

static void told(const char *what, CUresult r) { printf("  %s: %s\n", what, name(r)); }

static CUDA_MEMCPY3D copyOf(CUmemorytype from) {
    static char host[64];
    CUDA_MEMCPY3D c;
    memset(&c, 0, sizeof c);
    c.srcMemoryType = from, c.srcDevice = memory, c.srcHost = host, c.srcXInBytes = 8,
        c.srcHeight = 4;
    c.dstMemoryType = CU_MEMORYTYPE_UNIFIED, c.dstDevice = memory + 256;
    c.WidthInBytes = 16, c.Height = c.Depth = 1;
    return c;
}

static void showCopy(const char *of, CUgraphNode node) {
    CUDA_MEMCPY3D c;
    CHECKCU(cuGraphMemcpyNodeGetParams(node, &c));
    printf("  %s: from %d, x %zu, pitch %zu, height %zu, to %d\n", of, int(c.srcMemoryType),
        c.srcXInBytes, c.srcPitch,
           c.srcHeight, int(c.dstMemoryType));
}

static CUgraphNode onlyNode(CUgraph g) {
    CUgraphNode n = nullptr;
    size_t count = 1;
    CHECKCU(cuGraphGetNodes(g, &n, &count));
    return n;
}

static CUgraph childOf(CUgraphNode n) {
    CUgraph g;
    CHECKCU(cuGraphChildGraphNodeGetGraph(n, &g));
    return g;
}

// Copies are told as they were given, however deep the graph that they are in was copied.
static void copies() {
    puts("copies in copies of graphs");
    CUgraph inner, middle, outer, clone;
    CUgraphNode node, child, grandchild;
    CHECKCU(cuGraphCreate(&inner, 0)), CHECKCU(cuGraphCreate(&middle, 0)),
        CHECKCU(cuGraphCreate(&outer, 0));
    CUDA_MEMCPY3D c = copyOf(CU_MEMORYTYPE_HOST);
    CHECKCU(cuGraphAddMemcpyNode(&node, inner, nullptr, 0, &c, context));
    CHECKCU(cuGraphAddChildGraphNode(&child, middle, nullptr, 0, inner));
    CHECKCU(cuGraphAddChildGraphNode(&grandchild, outer, nullptr, 0, middle));
    CHECKCU(cuGraphClone(&clone, outer));
    showCopy("itself", node);
    showCopy("child", onlyNode(childOf(child)));
    showCopy("child of a child", onlyNode(childOf(onlyNode(childOf(grandchild)))));
    showCopy("in a clone", onlyNode(childOf(onlyNode(childOf(onlyNode(clone))))));
    c = copyOf(CU_MEMORYTYPE_DEVICE);
    CHECKCU(cuGraphMemcpyNodeSetParams(node, &c));
    showCopy("itself, set", node);
    showCopy("child, as it was", onlyNode(childOf(child)));
    for (CUgraph g : {inner, middle, outer, clone}) CHECKCU(cuGraphDestroy(g));
}

static CUDA_KERNEL_NODE_PARAMS withoutFunction() {
    CUDA_KERNEL_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    return p;
}

static void graphs() {
    puts("graphs");
    CUgraph g, other, inner, outer;
    CUgraphNode a, b, n, null = nullptr;
    CUgraphExec exec;
    CUgraphConditionalHandle handle;
    CUDA_KERNEL_NODE_PARAMS kernel = withoutFunction();
    typedef CUresult Edges(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
    auto add = get<Edges>("cuGraphAddDependencies", 10000),
        remove = get<Edges>("cuGraphRemoveDependencies", 10000);
    for (CUgraph *x : {&g, &other, &inner, &outer}) CHECKCU(cuGraphCreate(x, 0));
    CHECKCU(cuGraphAddEmptyNode(&a, g, nullptr, 0)), CHECKCU(cuGraphAddEmptyNode(&b, g, &a, 1));
    told("no edges are added", add(g, nullptr, nullptr, 0));
    told("no edges are added to no graph", add(nullptr, nullptr, nullptr, 0));
    told("no edges are removed from no graph", remove(nullptr, nullptr, nullptr, 0));
    told("a condition without context", cuGraphConditionalHandleCreate(&handle, other, nullptr, 0,
        0));
    told("a condition without context, with flags", cuGraphConditionalHandleCreate(&handle, other,
        nullptr, 0, 3));
    told("a condition", cuGraphConditionalHandleCreate(&handle, other, context, 0, 0));
    told("a child with a condition", cuGraphAddChildGraphNode(&n, g, nullptr, 0, other));
    told("a child with a condition, in no graph", cuGraphAddChildGraphNode(&n, nullptr, nullptr, 0,
        other));
    told("a child with a condition, after no node", cuGraphAddChildGraphNode(&n, g, &null, 1,
        other));
    CHECKCU(cuGraphAddChildGraphNode(&n, outer, nullptr, 0, inner));
    CUgraph child = childOf(onlyNode(outer));
    told("a child as another's child", cuGraphAddChildGraphNode(&n, g, nullptr, 0, child));
    told("a child is instantiated", cuGraphInstantiateWithFlags(&exec, child, 0));
    told("a child in no graph", cuGraphAddChildGraphNode(&n, nullptr, nullptr, 0, g));
    told("a kernel without function", cuGraphAddKernelNode(&n, g, nullptr, 0, &kernel));
    told("no node that is made a kernel without function", cuGraphKernelNodeSetParams(nullptr,
        &kernel));
    CUgraphNodeParams p;
    memset(&p, 0, sizeof p);
    p.type = CU_GRAPH_NODE_TYPE_MEMCPY, p.memcpy.copyParams = copyOf(CU_MEMORYTYPE_DEVICE);
    p.memcpy.copyCtx = context, p.memcpy.flags = 1;
    typedef CUresult AddNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
        CUgraphNodeParams *);
    auto addNode = get<AddNode>("cuGraphAddNode", 12020);
    told("a copy with flags", addNode(&n, g, nullptr, 0, &p));
    CHECKCU(cuGraphInstantiateWithFlags(&exec, g, 0));
    told("a kernel without function in an executable graph", cuGraphExecKernelNodeSetParams(exec,
        a, &kernel));
    told("an update without a place for its result", cuGraphExecUpdate(exec, g, nullptr));
    told("the same of no graph", cuGraphExecUpdate(exec, nullptr, nullptr));
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(add(g, &b, &a, 1));
    CUgraphNode bad = a;
    typedef CUresult Instantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
    auto instantiate = get<Instantiate>("cuGraphInstantiate", 11000);
    told("a circle", instantiate(&exec, g, &bad, nullptr, 0));
    printf("  a node is told: %d\n", bad != nullptr);
    for (CUgraph x : {g, other, inner, outer}) CHECKCU(cuGraphDestroy(x));
}

static void pieces() {
    puts("memory");
    CUdeviceptr managed, at;
    CUmemGenericAllocationHandle tiles;
    CUmemAllocationProp prop;
    CUDA_ARRAY_DESCRIPTOR flat;
    unsigned long long access;
    typedef CUresult Advise(CUdeviceptr, size_t, int, CUdevice);
    auto advise = get<Advise>("cuMemAdvise", 8000);
    CHECKCU(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    told("advice of another device", advise(managed, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, 99));
    told("advice of another device on nothing", advise(managed, 0, CU_MEM_ADVISE_SET_ACCESSED_BY,
        99));
    told("managed memory is freed in stream order", cuMemFreeAsync(managed, nullptr));
    CHECKCU(cuMemFree(managed));
    told("the descriptor of no array, to nowhere", cuArrayGetDescriptor(nullptr, nullptr));
    told("the descriptor of no array", cuArrayGetDescriptor(&flat, nullptr));
    told("the same in three dimensions", cuArray3DGetDescriptor(nullptr, nullptr));
    CUmemLocation location;
    memset(&location, 0, sizeof location);
    location.type = CU_MEM_LOCATION_TYPE_DEVICE, location.id = 99;
    static char own[64];
    told("another device's access to the program's memory", cuMemGetAccess(&access, &location,
        (CUdeviceptr)own));
    told("another device's access to nothing", cuMemGetAccess(&access, &location, 0));
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED, prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
        prop.location.id = device;
    prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    CHECKCU(cuMemCreate(&tiles, 2 << 20, &prop, 0));
    CHECKCU(cuMemAddressReserve(&at, 2 << 20, 0, 0, 0));
    told("tiles at an address", cuMemMap(at, 2 << 20, 0, tiles, 0));
    CHECKCU(cuMemAddressFree(at, 2 << 20));
    CHECKCU(cuMemRelease(tiles));
}

int main() {
    device = openDevice();
    CHECKCU(cuCtxGetCurrent(&context));
    CHECKCU(cuMemAlloc(&memory, 4096));
    copies();
    graphs();
    pieces();
    return 0;
}
