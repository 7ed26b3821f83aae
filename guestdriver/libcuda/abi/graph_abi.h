/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of graphs, stream capture and stream memory operations, as cuda_abi.h. */
#ifndef PARACUDA_GRAPH_ABI_H
#define PARACUDA_GRAPH_ABI_H

#include "abi/cuda_abi.h"

typedef struct cu_graph_exec *CUgraphExec;
typedef struct user_object *CUuserObject;
typedef uint64_t CUgraphConditionalHandle;
typedef int CUgraphNodeType;
typedef int CUgraphExecUpdateResult;
typedef int CUgraphMem_attribute;
typedef int CUkernelNodeAttrID;

typedef struct {
	uint8_t bytes[64];
} CUkernelNodeAttrValue;

enum {
	NODE_KERNEL = 0,
	NODE_MEMCPY = 1,
	NODE_MEMSET = 2,
	NODE_HOST = 3,
	NODE_GRAPH = 4,
	NODE_EMPTY = 5,
	NODE_EVENT_WAIT = 6,
	NODE_EVENT_RECORD = 7,
	NODE_SEMAPHORE_SIGNAL = 8,
	NODE_SEMAPHORE_WAIT = 9,
	NODE_MEM_ALLOC = 10,
	NODE_MEM_FREE = 11,
	NODE_MEM_OPS = 12,
	NODE_CONDITIONAL = 13,
};

typedef struct {
	CUfunction func;
	uint32_t gridDimX, gridDimY, gridDimZ;
	uint32_t blockDimX, blockDimY, blockDimZ;
	uint32_t sharedMemBytes;
	void **kernelParams;
	void **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v1) == 56, "CUDA_KERNEL_NODE_PARAMS_v1");

typedef struct {
	CUDA_KERNEL_NODE_PARAMS_v1 v1;
	CUkernel kern;
	CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72, "CUDA_KERNEL_NODE_PARAMS");

typedef struct {
	int flags, reserved;
	CUcontext copyCtx;
	CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;
_Static_assert(sizeof(CUDA_MEMCPY_NODE_PARAMS) == 216, "CUDA_MEMCPY_NODE_PARAMS");

typedef struct {
	CUdeviceptr dst;
	size_t pitch;
	uint32_t value, elementSize;
	size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;
_Static_assert(sizeof(CUDA_MEMSET_NODE_PARAMS) == 40, "CUDA_MEMSET_NODE_PARAMS");

typedef struct {
	CUhostFn fn;
	void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct {
	CUgraph graph;
	int ownership;
} CUDA_CHILD_GRAPH_NODE_PARAMS;
_Static_assert(sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS) == 16, "CUDA_CHILD_GRAPH_NODE_PARAMS");

typedef struct {
	uint8_t poolProps[88];
	const void *accessDescs;
	size_t accessDescCount;
	size_t bytesize;
	CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;
_Static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == 120, "CUDA_MEM_ALLOC_NODE_PARAMS");

typedef struct {
	uint32_t operation, pad;
	CUdeviceptr address;
	uint64_t value;
	uint32_t flags, pad2;
	CUdeviceptr alias;
	uint64_t pad3;
} CUstreamBatchMemOpParams;
_Static_assert(sizeof(CUstreamBatchMemOpParams) == 48, "CUstreamBatchMemOpParams");

typedef struct {
	CUcontext ctx;
	uint32_t count;
	CUstreamBatchMemOpParams *paramArray;
	uint32_t flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS;
_Static_assert(sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS) == 32, "CUDA_BATCH_MEM_OP_NODE_PARAMS");

typedef struct {
	CUgraphConditionalHandle handle;
	int type;
	uint32_t size;
	CUgraph *phGraph_out;
	CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;
_Static_assert(sizeof(CUDA_CONDITIONAL_NODE_PARAMS) == 32, "CUDA_CONDITIONAL_NODE_PARAMS");

typedef struct {
	CUgraphNodeType type;
	int reserved0[3];
	union {
		int64_t reserved1[29];
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY_NODE_PARAMS copy;
		CUDA_MEMSET_NODE_PARAMS fill;	/* its context behind it doesn't count */
		CUDA_HOST_NODE_PARAMS host;
		CUDA_CHILD_GRAPH_NODE_PARAMS graph;
		CUevent event;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		CUdeviceptr freed;
		CUDA_BATCH_MEM_OP_NODE_PARAMS ops;
		CUDA_CONDITIONAL_NODE_PARAMS conditional;
	} u;
	int64_t reserved2;
} CUgraphNodeParams;
_Static_assert(sizeof(CUgraphNodeParams) == 256, "CUgraphNodeParams");

typedef struct {
	cuuint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;
_Static_assert(sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) == 32, "CUDA_GRAPH_INSTANTIATE_PARAMS");

typedef struct {
	CUgraphExecUpdateResult result;
	CUgraphNode errorNode;
	CUgraphNode errorFromNode;
} CUgraphExecUpdateResultInfo;
_Static_assert(sizeof(CUgraphExecUpdateResultInfo) == 24, "CUgraphExecUpdateResultInfo");

#endif
