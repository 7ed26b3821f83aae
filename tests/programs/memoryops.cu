// SPDX-License-Identifier: Apache-2.0
// Operations on words of memory, in streams and graphs.
#include "versions.h"

static CUstream stream;

static void memoryOperations() {
    CUdeviceptr p;
    unsigned small = 0;
    unsigned long long large = 0;
    CUcontext context;
    CHECKCU(cuCtxGetCurrent(&context));
    CHECKCU(cuMemAlloc(&p, 256));
    CHECKCU(cuMemsetD8(p, 0, 256));
    CHECKCU(cuCtxSynchronize());
    CHECKCU(cuStreamWriteValue32(stream, p, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECKCU(cuStreamWaitValue32(stream, p, 5, CU_STREAM_WAIT_VALUE_EQ));
    CHECKCU(cuStreamWriteValue64(stream, p + 8, 1ull << 40, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECKCU(cuStreamWaitValue64(stream, p + 8, 1ull << 39, CU_STREAM_WAIT_VALUE_GEQ));
    CUstreamBatchMemOpParams ops[2];
    memset(ops, 0, sizeof ops);
    ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = p + 16;
    ops[0].writeValue.value = 7;
    ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = p + 16;
    ops[1].waitValue.value = 7;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CHECKCU(cuStreamBatchMemOp(stream, 2, ops, 0));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(&small, p + 16, 4));
    CHECKCU(cuMemcpyDtoH(&large, p + 8, 8));
    REQUIRE(small == 7 && large == 1ull << 40);

    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_BATCH_MEM_OP_NODE_PARAMS params, got;
    memset(&params, 0, sizeof params);
    params.ctx = context;
    params.count = 1;
    params.paramArray = ops;
    ops[0].writeValue.value = 8;
    CHECKCU(cuGraphCreate(&graph, 0));
    CHECKCU(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
    CHECKCU(cuGraphBatchMemOpNodeGetParams(node, &got));
    REQUIRE(got.count == 1 && got.paramArray[0].writeValue.value == 8);
    ops[0].writeValue.value = 9;
    CHECKCU(cuGraphBatchMemOpNodeSetParams(node, &params));
    CHECKCU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECKCU(cuGraphLaunch(exec, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(&small, p + 16, 4));
    REQUIRE(small == 9);
    ops[0].writeValue.value = 10;
    CHECKCU(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    CHECKCU(cuGraphLaunch(exec, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(&small, p + 16, 4));
    REQUIRE(small == 10);
    CHECKCU(cuGraphExecDestroy(exec));
    CHECKCU(cuGraphDestroy(graph));
    CHECKCU(cuMemFree(p));
    puts("operations on memory");
}

int main() {
    openDevice();
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memoryOperations();
    return 0;
}
