// SPDX-License-Identifier: Apache-2.0
// Nodes of graphs by hand, read, changed before and after a graph is instantiated, in the old and
// the new form of each function: those that other programs don't call.
#include "versions.h"
#include <string>
#include <unistd.h>
#include <vector>

static const char ptx[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 to, .param .u32 value)
{
    .reg .b64 %p;
    .reg .b32 %r;
    ld.param.u64 %p, [to];
    ld.param.u32 %r, [value];
    st.global.u32 [%p], %r;
    ret;
}
)";

static CUfunction function;
static CUstream stream;
static CUcontext context;
static CUdeviceptr memory; // 64 words

static unsigned word(unsigned i) {
    unsigned v = 0;
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(&v, memory + 4 * i, 4));
    return v;
}

static void run(CUgraphExec exec) {
    CHECKCU(cuMemsetD32(memory, 0, 64));
    CHECKCU(cuCtxSynchronize());
    CHECKCU(cuGraphLaunch(exec, stream));
    CHECKCU(cuStreamSynchronize(stream));
}

static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec;
    CHECKCU(get<CUresult(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t)>(
        "cuGraphInstantiate", 11000)(&exec, graph, nullptr, nullptr, 0));
    return exec;
}

// Kernel nodes in the form of before CUDA 12.
static void kernels() {
    struct Params {
        CUfunction func;
        unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, shared;
        void **kernelParams, **extra;
    } params = {function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr}, got;
    CUdeviceptr to = memory;
    unsigned value = 11;
    void *args[] = {&to, &value};
    params.kernelParams = args;
    CUgraph graph;
    CUgraphNode node, other;
    CUgraphExec exec;
    CHECKCU(cuGraphCreate(&graph, 0));
    CHECKCU(get<CUresult(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const Params *)>(
        "cuGraphAddKernelNode", 10000)(&node, graph, nullptr, 0, &params));
    CHECKCU(get<CUresult(CUgraphNode, Params *)>("cuGraphKernelNodeGetParams", 10000)(node, &got));
    REQUIRE(got.func == function && got.blockX == 1 && *(unsigned *)got.kernelParams[1] == 11);
    value = 12;
    CHECKCU(get<CUresult(CUgraphNode, const Params *)>("cuGraphKernelNodeSetParams",
                                                       10000)(node, &params));
    CUkernelNodeAttrValue attribute, told;
    memset(&attribute, 0, sizeof attribute);
    attribute.cooperative = 1;
    CHECKCU(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute));
    to = memory + 4;
    CHECKCU(get<CUresult(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const Params *)>(
        "cuGraphAddKernelNode", 10000)(&other, graph, &node, 1, &params));
    CHECKCU(cuGraphKernelNodeCopyAttributes(other, node));
    CHECKCU(cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &told));
    REQUIRE(told.cooperative == 1);
    CHECKCU(get<CUresult(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t)>(
        "cuGraphInstantiate", 10000)(&exec, graph, nullptr, nullptr, 0));
    run(exec);
    REQUIRE(word(0) == 12 && word(1) == 12);
    to = memory + 8, value = 13;
    CHECKCU(get<CUresult(CUgraphExec, CUgraphNode, const Params *)>(
        "cuGraphExecKernelNodeSetParams", 10010)(exec, other, &params));
    run(exec);
    REQUIRE(word(0) == 12 && word(1) == 0 && word(2) == 13);
    int result = -1;
    CUgraphNode failed = nullptr;
    CHECKCU(get<CUresult(CUgraphExec, CUgraph, CUgraphNode *, int *)>("cuGraphExecUpdate", 10020)(
        exec, graph, &failed, &result));
    REQUIRE(result == 0);
    run(exec);
    REQUIRE(word(1) == 12 && word(2) == 0);
    cuuint64_t flags = 99;
    CHECKCU(cuGraphExecGetFlags(exec, &flags));
    REQUIRE(flags == 0);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
    puts("kernels in the old form");
}

static unsigned calls;
static void CUDA_CB add(void *by) { calls += (unsigned)(size_t)by; }

static void memsetsAndHosts() {
    CUgraph graph, child;
    CUgraphNode set, copy, host, inner, nested;
    CUDA_MEMSET_NODE_PARAMS fill = {memory, 0, 21, 4, 4, 1}, filled;
    CUDA_MEMCPY3D box, boxed;
    CUDA_HOST_NODE_PARAMS call = {add, (void *)1};
    CHECKCU(cuGraphCreate(&graph, 0));
    CHECKCU(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &fill, context));
    CHECKCU(cuGraphMemsetNodeGetParams(set, &filled));
    REQUIRE(filled.dst == memory && filled.value == 21 && filled.width == 4);
    fill.value = 22;
    CHECKCU(cuGraphMemsetNodeSetParams(set, &fill));
    memset(&box, 0, sizeof box);
    box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = memory, box.dstDevice = memory + 64;
    box.WidthInBytes = 16, box.Height = box.Depth = 1;
    CHECKCU(cuGraphAddMemcpyNode(&copy, graph, &set, 1, &box, context));
    CHECKCU(cuGraphMemcpyNodeGetParams(copy, &boxed));
    REQUIRE(boxed.srcDevice == memory && boxed.dstDevice == memory + 64 &&
            boxed.WidthInBytes == 16);
    CHECKCU(cuGraphAddHostNode(&host, graph, &copy, 1, &call));
    call.userData = (void *)10;
    CHECKCU(cuGraphHostNodeSetParams(host, &call));
    CHECKCU(cuGraphCreate(&child, 0));
    fill.dst = memory + 128, fill.value = 23;
    CHECKCU(cuGraphAddMemsetNode(&inner, child, nullptr, 0, &fill, context));
    CHECKCU(cuGraphAddChildGraphNode(&nested, graph, &host, 1, child));
    CUgraphExec exec = instantiate(graph);
    run(exec);
    REQUIRE(word(0) == 22 && word(16) == 22 && word(19) == 22 && word(32) == 23 && calls == 10);
    call.userData = (void *)100;
    CHECKCU(cuGraphExecHostNodeSetParams(exec, host, &call));
    fill.value = 24;
    CHECKCU(cuGraphMemsetNodeSetParams(inner, &fill));
    CHECKCU(cuGraphExecChildGraphNodeSetParams(exec, nested, child));
    run(exec);
    REQUIRE(word(32) == 24 && calls == 110);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(child));
    CHECKCU(cuGraphDestroy(graph));
    puts("fills, copies, calls and graphs in a graph");
}

static void events() {
    CUgraph graph;
    CUgraphNode wait, record, waiting;
    CUevent a, b, got;
    CHECKCU(cuEventCreate(&a, CU_EVENT_DISABLE_TIMING));
    CHECKCU(cuEventCreate(&b, CU_EVENT_DISABLE_TIMING));
    CHECKCU(cuGraphCreate(&graph, 0));
    CHECKCU(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, a));
    CHECKCU(cuGraphAddEventRecordNode(&record, graph, &wait, 1, a));
    CHECKCU(cuGraphAddEventWaitNode(&waiting, graph, &record, 1, a));
    CHECKCU(cuGraphEventWaitNodeGetEvent(wait, &got));
    REQUIRE(got == a);
    CHECKCU(cuGraphEventRecordNodeGetEvent(record, &got));
    REQUIRE(got == a);
    CHECKCU(cuGraphEventRecordNodeSetEvent(record, b));
    CHECKCU(cuGraphEventWaitNodeSetEvent(waiting, b));
    CHECKCU(cuGraphEventRecordNodeGetEvent(record, &got));
    REQUIRE(got == b);
    CUgraphExec exec = instantiate(graph);
    run(exec);
    CHECKCU(cuEventSynchronize(b));
    CHECKCU(cuGraphExecEventRecordNodeSetEvent(exec, record, a));
    CHECKCU(cuGraphExecEventWaitNodeSetEvent(exec, waiting, a));
    run(exec);
    CHECKCU(cuEventQuery(a));
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
    CHECKCU(cuEventDestroy(a));
    CHECKCU(cuEventDestroy(b));
    puts("events");
}

static void allocations(CUdevice device) {
    CUgraph graph;
    CUgraphNode alloc, set, release;
    CUDA_MEM_ALLOC_NODE_PARAMS params, got;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.id = device;
    params.bytesize = 4096;
    CHECKCU(cuGraphCreate(&graph, 0));
    CHECKCU(cuGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params));
    CHECKCU(cuGraphMemAllocNodeGetParams(alloc, &got));
    REQUIRE(got.bytesize == 4096 && got.dptr == params.dptr && got.dptr != 0);
    CUDA_MEMSET_NODE_PARAMS fill = {params.dptr, 0, 5, 4, 1024, 1};
    CHECKCU(cuGraphAddMemsetNode(&set, graph, &alloc, 1, &fill, context));
    CHECKCU(cuGraphAddMemFreeNode(&release, graph, &set, 1, params.dptr));
    CUdeviceptr freed = 0;
    CHECKCU(cuGraphMemFreeNodeGetParams(release, &freed));
    REQUIRE(freed == params.dptr);
    CUDA_GRAPH_INSTANTIATE_PARAMS how;
    memset(&how, 0, sizeof how);
    CUgraphExec exec;
    CHECKCU(cuGraphInstantiateWithParams(&exec, graph, &how));
    REQUIRE(how.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
    run(exec);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
    puts("memory");
}

// Edges, in the form of CUDA 13 (with data) and in that of before.
static void edges() {
    typedef CUgraphNode Node;
    struct Data { unsigned char from, to, type, reserved[5]; } data[4];
    CUgraph graph;
    Node a, b, c, from[4], to[4];
    size_t n;
    CHECKCU(cuGraphCreate(&graph, 0));
    CHECKCU(cuGraphAddEmptyNode(&a, graph, nullptr, 0));
    CHECKCU(cuGraphAddEmptyNode(&b, graph, &a, 1));
    CUgraphNodeParams params;
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = memory, params.memset.value = 31, params.memset.elementSize = 4;
    params.memset.width = params.memset.height = 1;
    params.memset.ctx = context;
    CHECKCU(get<CUresult(Node *, CUgraph, const Node *, const Data *, size_t, CUgraphNodeParams *)>(
        "cuGraphAddNode", 12030)(&c, graph, &b, nullptr, 1, &params));
    params.memset.value = 32;
    CHECKCU(cuGraphNodeSetParams(c, &params));
    CHECKCU(get<CUresult(CUgraph, const Node *, const Node *, const Data *, size_t)>(
        "cuGraphAddDependencies", 12030)(graph, &a, &c, nullptr, 1));
    n = 4;
    CHECKCU(get<CUresult(CUgraph, Node *, Node *, Data *, size_t *)>("cuGraphGetEdges", 12030)(
        graph, from, to, data, &n));
    REQUIRE(n == 3);
    n = 4;
    CHECKCU(get<CUresult(CUgraph, Node *, Node *, size_t *)>("cuGraphGetEdges", 10000)(graph, from,
                                                                                       to, &n));
    REQUIRE(n == 3);
    n = 4;
    CHECKCU(get<CUresult(Node, Node *, Data *, size_t *)>("cuGraphNodeGetDependencies",
                                                          12030)(c, from, data, &n));
    REQUIRE(n == 2);
    n = 4;
    CHECKCU(get<CUresult(Node, Node *, Data *, size_t *)>("cuGraphNodeGetDependentNodes",
                                                          12030)(a, to, data, &n));
    REQUIRE(n == 2);
    CHECKCU(get<CUresult(CUgraph, const Node *, const Node *, size_t)>("cuGraphRemoveDependencies",
                                                                       10000)(graph, &a, &c, 1));
    CHECKCU(get<CUresult(CUgraph, const Node *, const Node *, const Data *, size_t)>(
        "cuGraphRemoveDependencies", 12030)(graph, &a, &b, nullptr, 1));
    n = 4;
    CHECKCU(get<CUresult(CUgraph, Node *, Node *, Data *, size_t *)>("cuGraphGetEdges", 12030)(
        graph, from, to, data, &n));
    REQUIRE(n == 1 && from[0] == b && to[0] == c);
    CUgraphExec exec = instantiate(graph);
    run(exec);
    REQUIRE(word(0) == 32);
    params.memset.value = 33;
    CHECKCU(cuGraphExecNodeSetParams(exec, c, &params));
    run(exec);
    REQUIRE(word(0) == 33);
    char file[] = "/tmp/graph.XXXXXX", text[64] = "";
    int fd = mkstemp(file);
    REQUIRE(fd >= 0);
    CHECKCU(cuGraphDebugDotPrint(graph, file, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    FILE *dot = fopen(file, "r");
    REQUIRE(dot && fread(text, 1, 7, dot) == 7 && !strcmp(text, "digraph"));
    fclose(dot);
    close(fd);
    unlink(file);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
    puts("edges");
}

static unsigned destroyed;
static void CUDA_CB destroy(void *by) {
    __atomic_fetch_add(&destroyed, (unsigned)(size_t)by, __ATOMIC_SEQ_CST);
}

static void objects() {
    CUgraph graph;
    CUuserObject object;
    CHECKCU(cuGraphCreate(&graph, 0));
    CHECKCU(cuUserObjectCreate(&object, (void *)5, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CHECKCU(cuUserObjectRetain(object, 1));
    CHECKCU(cuGraphRetainUserObject(graph, object, 1, 0));
    CHECKCU(cuUserObjectRelease(object, 2));
    REQUIRE(destroyed == 0);
    CHECKCU(cuGraphReleaseUserObject(graph, object, 1));
    for (int i = 0; i < 10000 && !__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST); i++) usleep(1000);
    REQUIRE(destroyed == 5);
    CHECKCU(cuGraphDestroy(graph));
    puts("objects of the program's");
}

static void captures() {
    CUgraph graph = nullptr;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    cuuint64_t id = 0, same = 0;
    const CUgraphNode *nodes;
    const void *data;
    size_t n = 0;
    CHECKCU(get<CUresult(CUstream)>("cuStreamBeginCapture", 10000)(stream));
    CHECKCU(cuMemsetD32Async(memory, 41, 1, stream));
    CHECKCU(get<CUresult(CUstream, CUstreamCaptureStatus *, cuuint64_t *)>(
        "cuStreamGetCaptureInfo", 10010)(stream, &status, &id));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECKCU(get<CUresult(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
                         const CUgraphNode **, const void **, size_t *)>(
        "cuStreamGetCaptureInfo", 12030)(stream, &status, &same, &graph, &nodes, &data, &n));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id == same && n == 1 && graph != nullptr);
    CUgraphNode last = nodes[0];
    CHECKCU(get<CUresult(CUstream, CUgraphNode *, const void *, size_t, unsigned)>(
        "cuStreamUpdateCaptureDependencies", 12030)(stream, &last, nullptr, 1,
                                                    CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    CHECKCU(cuMemsetD32Async(memory + 4, 42, 1, stream));
    CHECKCU(cuStreamEndCapture(stream, &graph));
    exec = instantiate(graph);
    run(exec);
    REQUIRE(word(0) == 41 && word(1) == 42);
    // A capture may end without anybody who takes the graph.
    CHECKCU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECKCU(cuMemsetD32Async(memory, 43, 1, stream));
    CHECKCU(cuStreamEndCapture(stream, nullptr));
    CHECKCU(cuStreamIsCapturing(stream, &status));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_NONE &&
            cuStreamEndCapture(stream, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
    puts("captures");
}

int main() {
    CUdevice device = openDevice();
    CUmodule module;
    CHECKCU(cuCtxGetCurrent(&context));
    CHECKCU(cuModuleLoadData(&module, ptx));
    CHECKCU(cuModuleGetFunction(&function, module, "store"));
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuMemAlloc(&memory, 256));
    kernels();
    memsetsAndHosts();
    events();
    allocations(device);
    edges();
    objects();
    captures();
    return 0;
}
