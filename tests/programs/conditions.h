// SPDX-License-Identifier: Apache-2.0
// What the programs about conditional nodes share.
#pragma once
#include "driver.h"
#include <vector>

// choose sets a condition to p[0]; count adds 1 to p[0] and sets it to whether that is below p[1].
// The function that sets conditions is the driver's.
static const char deciders[] = R"(
.version 7.0
.target sm_75
.address_size 64

.extern .func cudaGraphSetConditional
(
    .param .b64 cudaGraphSetConditional_param_0,
    .param .b32 cudaGraphSetConditional_param_1
)
;

.visible .entry choose(.param .u64 handle, .param .u64 words)
{
    .reg .b64 %h, %p;
    .reg .b32 %v;
    ld.param.u64 %h, [handle];
    ld.param.u64 %p, [words];
    ld.global.u32 %v, [%p];
    {
        .param .b64 param0;
        st.param.b64 [param0+0], %h;
        .param .b32 param1;
        st.param.b32 [param1+0], %v;
        call.uni cudaGraphSetConditional, (param0, param1);
    }
    ret;
}

.visible .entry count(.param .u64 handle, .param .u64 words)
{
    .reg .b64 %h, %p;
    .reg .b32 %v, %n;
    .reg .pred %less;
    ld.param.u64 %h, [handle];
    ld.param.u64 %p, [words];
    ld.global.u32 %v, [%p];
    ld.global.u32 %n, [%p+4];
    add.u32 %v, %v, 1;
    st.global.u32 [%p], %v;
    setp.lt.u32 %less, %v, %n;
    selp.u32 %v, 1, 0, %less;
    {
        .param .b64 param0;
        st.param.b64 [param0+0], %h;
        .param .b32 param1;
        st.param.b32 [param1+0], %v;
        call.uni cudaGraphSetConditional, (param0, param1);
    }
    ret;
}
)";

// Types of conditional nodes; older headers lack the third.
enum { IF, WHILE, SWITCH };

static CUcontext context;
static CUfunction choose, count1;

static void loadDeciders() {
    CUmodule module;
    CHECKCU(cuCtxGetCurrent(&context));
    CHECKCU(cuModuleLoadData(&module, deciders));
    CHECKCU(cuModuleGetFunction(&choose, module, "choose"));
    CHECKCU(cuModuleGetFunction(&count1, module, "count"));
}

static CUgraphConditionalHandle newHandle(CUgraph g, unsigned value, bool assign) {
    CUgraphConditionalHandle h;
    CHECKCU(cuGraphConditionalHandleCreate(&h, g, context, value,
                                           assign ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0));
    return h;
}

static CUgraphNode addNode(CUgraph g, const CUgraphNode *after, size_t n, CUgraphNodeParams *p) {
    CUgraphNode node;
#if CUDA_VERSION >= 13000
    CHECKCU(cuGraphAddNode(&node, g, after, nullptr, n, p));
#else
    CHECKCU(cuGraphAddNode(&node, g, after, n, p));
#endif
    return node;
}

// conditional adds a node after another, or after none; bodies are its graphs.
static CUgraphNode conditional(CUgraph g, CUgraphNode after, CUgraphConditionalHandle h, int type,
                               unsigned size, std::vector<CUgraph> &bodies) {
    CUgraphNodeParams p = {};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = h;
    p.conditional.type = (CUgraphConditionalNodeType)type;
    p.conditional.size = size;
    p.conditional.ctx = context;
    CUgraphNode node = addNode(g, &after, after ? 1 : 0, &p);
    bodies.assign(p.conditional.phGraph_out, p.conditional.phGraph_out + size);
    CUgraphNodeType t;
    CHECKCU(cuGraphNodeGetType(node, &t));
    REQUIRE(t == CU_GRAPH_NODE_TYPE_CONDITIONAL);
    return node;
}

// decide adds a kernel that sets a condition.
static CUgraphNode decide(CUgraph g, CUgraphNode after, CUfunction f, CUgraphConditionalHandle h,
                          unsigned *words) {
    void *args[] = {&h, &words};
    CUgraphNodeParams p = {};
    p.type = CU_GRAPH_NODE_TYPE_KERNEL;
    p.kernel.func = f;
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = args;
    return addNode(g, &after, after ? 1 : 0, &p);
}
