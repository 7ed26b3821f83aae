/* SPDX-License-Identifier: Apache-2.0 */
/* The types of graphs, stream capture and stream memory operations. */
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

typedef CUlaunchAttributeValue CUkernelNodeAttrValue;

#endif
