/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "graphs/graph.h"

#include "addresses/graph_memory.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "streams/stream.h"

EXPORT CUresult cuGraphDestroy(CUgraph hGraph)
{
	CUresult result;

	ENTER();
	result = call_cuGraphDestroy(number_of(hGraph));
	if (!result) {
		node_forget_graph(hGraph);
		graph_memory_forget(number_of(hGraph));
		user_objects_release(user_objects_take(number_of(hGraph)));
	}
	return channel_synced(result);
}

EXPORT CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	uint64_t clone;
	CUresult result;

	ENTER();
	if (!phGraphClone)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuGraphClone(&clone, number_of(originalGraph));
	if (result)
		return result;
	user_objects_inherit(clone, number_of(originalGraph));
	*phGraphClone = (CUgraph)(uintptr_t)clone;
	node_inherit(originalGraph, *phGraphClone);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
					    unsigned long long flags)
{
	uint64_t exec = 0;
	CUresult result;

	ENTER_CONTEXT();
	if (!phGraphExec)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuGraphInstantiateWithFlags(&exec, number_of(hGraph), flags);
	return result ? result : exec_enter(phGraphExec, exec, hGraph);
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
					     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	uint64_t exec = 0, node = 0, status = 0;
	CUresult result;

	ENTER_CONTEXT();
	if (!phGraphExec || !instantiateParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(instantiateParams->hUploadStream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_GraphInstantiate(&exec, number_of(hGraph), instantiateParams->flags,
				       number_of(instantiateParams->hUploadStream), &node, &status);
	instantiateParams->hErrNode_out = (CUgraphNode)(uintptr_t)node;
	instantiateParams->result_out =
		result && !status ? CUDA_GRAPH_INSTANTIATE_ERROR : (int)status;
	return result ? result : exec_enter(phGraphExec, exec, hGraph);
}

/* The form of CUDA 11, with a node and a log, in which driver 580 writes nothing. */
EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
				      CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS p = { 0 };
	CUresult result = cuGraphInstantiateWithParams(phGraphExec, hGraph, &p);

	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize)
		*logBuffer = 0;
	return result;
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
				   CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
				     CUgraphExecUpdateResultInfo *resultInfo)
{
	uint64_t node = 0, from = 0, why = 0;
	CUresult result;

	ENTER_CONTEXT();
	result = call_GraphExecUpdate(number_of(hGraph), number_of(hGraphExec), &node, &from, &why);
	if (!resultInfo)
		return result;
	resultInfo->result = (int)why;
	resultInfo->errorNode = (CUgraphNode)(uintptr_t)node;
	resultInfo->errorFromNode = (CUgraphNode)(uintptr_t)from;
	return result;
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
				  CUgraphNode *hErrorNode_out,
				  CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info = { 0 };
	CUresult result = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);

	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	if (updateResult_out)
		*updateResult_out = info.result;
	return result;
}

static CUresult set_attribute(CUgraphNode node, unsigned id, const CUkernelNodeAttrValue *value)
{
	return call_cuGraphKernelNodeSetAttribute(number_of(node), id, value, sizeof(*value));
}

EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
					      const CUkernelNodeAttrValue *value)
{
	ENTER_CONTEXT();
	return value ? set_attribute(hNode, (unsigned)attr, value) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
					      CUkernelNodeAttrValue *value_out)
{
	ENTER_CONTEXT();
	if (!value_out)
		return CUDA_ERROR_INVALID_VALUE;
	return call_cuGraphKernelNodeGetAttribute(number_of(hNode), (unsigned)attr, value_out,
						  sizeof(*value_out));
}

EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out,
					       CUgraph hGraph, CUcontext ctx,
					       unsigned int defaultLaunchValue, unsigned int flags)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!pHandle_out || !number_of(hGraph) || flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx) /* otherwise the current one: the worker's call is in it */
		return CUDA_ERROR_INVALID_CONTEXT;
	result = call_GraphConditionalHandle(&handle, number_of(hGraph), defaultLaunchValue, flags);
	if (!result)
		*pHandle_out = handle;
	return result;
}
