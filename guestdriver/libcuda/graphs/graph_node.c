/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: each function of a type is one of CUgraphNodeParams. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "addresses/graph_memory.h"
#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/zz_generated_calls.h"
#include "graphs/graph.h"

/* What the library keeps of a node. */
static void remember(CUgraphNode node, CUgraph graph, const CUgraphNodeParams *p)
{
	CUgraph child;

	if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		node_keep_copy(node, graph, &p->memcpy.copyParams);
	else if (p->type == CU_GRAPH_NODE_TYPE_GRAPH && graph && node_copies() &&
		 !cuGraphChildGraphNodeGetGraph(node, &child))
		node_keep_child(node, graph, p->graph.graph, child);
}

/*
 * Gives a conditional node's graphs to the program, which reads them from an array of this library.
 */
static CUresult give_bodies(CUgraphNode node, CUgraph graph, CUDA_CONDITIONAL_NODE_PARAMS *p,
			    const uint64_t *bodies)
{
	struct node *n = node_keep(node);
	CUgraph *list = n ? calloc(p->size, sizeof(*list)) : NULL;

	if (!list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < p->size; i++)
		list[i] = (CUgraph)(uintptr_t)bodies[i];
	n->graph = number_of(graph);
	n->kept = list;
	p->phGraph_out = list;
	return CUDA_SUCCESS;
}

static bool allocates(const CUgraphNodeParams *p)
{
	return p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || p->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
	       (p->type == CU_GRAPH_NODE_TYPE_GRAPH && graph_has_memory(number_of(p->graph.graph)));
}

/* The driver checks a child graph first, then the graph that gets it, and what it depends on. */
static CUresult check_child(CUgraph graph, const CUgraphNode *after, size_t n,
			    const CUgraphNodeParams *p)
{
	bool null = !graph;
	CUgraph other;
	CUgraphNode node;
	CUresult result;

	if (p->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_SUCCESS;
	for (size_t i = 0; i < n; i++)
		null |= !after[i];
	if (!null || cuGraphCreate(&other, 0))
		return CUDA_SUCCESS;
	result = cuGraphAddChildGraphNode(&node, other, NULL, 0, p->graph.graph);
	cuGraphDestroy(other);
	return result;
}

/* Whether a kernel node names no function. The driver checks that before most else. */
static bool lacks_function(const CUgraphNodeParams *p)
{
	return p->type == CU_GRAPH_NODE_TYPE_KERNEL &&
	       !function_find(p->kernel.func ? (void *)p->kernel.func : (void *)p->kernel.kern);
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
		    const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p)
{
	uint64_t bodies[CUDA_MAX_CONDITIONAL_BODIES] = { 0 }, number, address, bodies_count;
	size_t bytes = n * sizeof(*after), count = 0;
	struct record r;
	CUresult result;

	ENTER_CONTEXT();
	if (lacks_function(p))
		return cuGraphGetNodes(graph, NULL, &count) ? CUDA_ERROR_INVALID_VALUE :
							      CUDA_ERROR_INVALID_HANDLE;
	if (!out || (n && !after) ||
	    (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
	     p->conditional.size > CUDA_MAX_CONDITIONAL_BODIES))
		return CUDA_ERROR_INVALID_VALUE;
	result = check_child(graph, after, n, p);
	if (result)
		return result;
	result = record_make(&r, p);
	if (!result)
		result = call_GraphAddNode(
			number_of(graph), n ? after : NULL, bytes, n ? edges : NULL, bytes, r.word,
			r.bytes, &number, &address, bodies,
			p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? sizeof(bodies) : 0,
			&bodies_count);
	record_free(&r);
	if (result)
		return result;
	*out = (CUgraphNode)(uintptr_t)number;
	remember(*out, graph, p);
	if (allocates(p))
		graph_memory_note(number_of(graph));
	if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return give_bodies(*out, graph, &p->conditional, bodies);
	if (p->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_SUCCESS;
	p->alloc.dptr = address;
	return graph_memory_enter(address, p->alloc.bytesize);
}

/* Whether a node is a kernel node: one of the executable graph, if one is given. */
static bool is_kernel(CUgraphExec exec, CUgraphNode node)
{
	CUgraphNodeType type;
	unsigned enabled;

	return !cuGraphNodeGetType(node, &type) && type == CU_GRAPH_NODE_TYPE_KERNEL &&
	       (!exec || !cuGraphNodeGetEnabled(exec, node, &enabled));
}

static CUresult set(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *p)
{
	struct record r;
	CUresult result;

	ENTER_CONTEXT();
	if (lacks_function(p))
		return is_kernel(exec, node) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	result = record_make(&r, p);
	if (!result)
		result = exec ? call_GraphExecNodeSet(number_of(exec), number_of(node), r.word,
						      r.bytes) :
				call_GraphNodeSet(number_of(node), r.word, r.bytes);
	record_free(&r);
	if (!result && !exec)
		remember(node, NULL, p);
	return result;
}

/* Whether reserved fields are 0, as they must be. */
static bool is_plain(const CUgraphNodeParams *p)
{
	return !(p->reserved0[0] | p->reserved0[1] | p->reserved0[2]) && !p->reserved2;
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies,
				  const CUgraphEdgeData *dependencyData, size_t numDependencies,
				  CUgraphNodeParams *nodeParams)
{
	if (!nodeParams || !is_plain(nodeParams))
		return CUDA_ERROR_INVALID_VALUE;
	return add(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			       const CUgraphNode *dependencies, size_t numDependencies,
			       CUgraphNodeParams *nodeParams)
{
	return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
				 nodeParams);
}

EXPORT CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return nodeParams && is_plain(nodeParams) ? set(NULL, hNode, nodeParams) :
						    CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					 CUgraphNodeParams *nodeParams)
{
	return nodeParams && is_plain(nodeParams) && hGraphExec ?
		       set(hGraphExec, hNode, nodeParams) :
		       CUDA_ERROR_INVALID_VALUE;
}

/* The parameters of one type, from a pointer to them. */
static CUgraphNodeParams params_of(CUgraphNodeType type, const void *params, size_t bytes)
{
	CUgraphNodeParams p = { .type = type };

	if (type == CU_GRAPH_NODE_TYPE_MEMCPY)
		memcpy(&p.memcpy.copyParams, params, bytes);
	else
		memcpy(&p.reserved1, params, bytes);
	return p;
}

#define ADD_NODE(name, kind, params_type)                                                 \
	EXPORT CUresult name(CUgraphNode *phGraphNode, CUgraph hGraph,                    \
			     const CUgraphNode *dependencies, size_t numDependencies,     \
			     const params_type *nodeParams)                               \
	{                                                                                 \
		CUgraphNodeParams p;                                                      \
                                                                                          \
		if (!nodeParams)                                                          \
			return CUDA_ERROR_INVALID_VALUE;                                  \
		p = params_of(kind, nodeParams, sizeof(*nodeParams));                     \
		return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p); \
	}

#define ADD_VALUE(name, kind, value_type)                                                 \
	EXPORT CUresult name(CUgraphNode *phGraphNode, CUgraph hGraph,                    \
			     const CUgraphNode *dependencies, size_t numDependencies,     \
			     value_type value)                                            \
	{                                                                                 \
		CUgraphNodeParams p = params_of(kind, &value, sizeof(value));             \
                                                                                          \
		return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p); \
	}

#define SET_NODE(name, kind, params_type)                                      \
	EXPORT CUresult name(CUgraphNode hNode, const params_type *nodeParams) \
	{                                                                      \
		CUgraphNodeParams p;                                           \
                                                                               \
		if (!nodeParams)                                               \
			return CUDA_ERROR_INVALID_VALUE;                       \
		p = params_of(kind, nodeParams, sizeof(*nodeParams));          \
		return set(NULL, hNode, &p);                                   \
	}

#define SET_EXEC(name, kind, params_type)                               \
	EXPORT CUresult name(CUgraphExec hGraphExec, CUgraphNode hNode, \
			     const params_type *nodeParams)             \
	{                                                               \
		CUgraphNodeParams p;                                    \
                                                                        \
		if (!nodeParams || !hGraphExec)                         \
			return CUDA_ERROR_INVALID_VALUE;                \
		p = params_of(kind, nodeParams, sizeof(*nodeParams));   \
		return set(hGraphExec, hNode, &p);                      \
	}

#define SET_EXEC_VALUE(name, kind, value_type)                                             \
	EXPORT CUresult name(CUgraphExec hGraphExec, CUgraphNode hNode, value_type value)  \
	{                                                                                  \
		CUgraphNodeParams p = params_of(kind, &value, sizeof(value));              \
                                                                                           \
		return hGraphExec ? set(hGraphExec, hNode, &p) : CUDA_ERROR_INVALID_VALUE; \
	}

ADD_NODE(cuGraphAddKernelNode_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS)
ADD_NODE(cuGraphAddKernelNode, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v1)
ADD_NODE(cuGraphAddHostNode, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS)
ADD_NODE(cuGraphAddBatchMemOpNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS)
ADD_VALUE(cuGraphAddChildGraphNode, CU_GRAPH_NODE_TYPE_GRAPH, CUgraph)
ADD_VALUE(cuGraphAddEventRecordNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent)
ADD_VALUE(cuGraphAddEventWaitNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent)
ADD_VALUE(cuGraphAddMemFreeNode, CU_GRAPH_NODE_TYPE_MEM_FREE, CUdeviceptr)
SET_NODE(cuGraphKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS)
SET_NODE(cuGraphKernelNodeSetParams, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v1)
SET_NODE(cuGraphMemcpyNodeSetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D)
SET_NODE(cuGraphMemsetNodeSetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS)
SET_NODE(cuGraphHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS)
SET_NODE(cuGraphBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	 CUDA_BATCH_MEM_OP_NODE_PARAMS)
SET_EXEC(cuGraphExecKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS)
SET_EXEC(cuGraphExecKernelNodeSetParams, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v1)
SET_EXEC(cuGraphExecHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS)
SET_EXEC(cuGraphExecBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	 CUDA_BATCH_MEM_OP_NODE_PARAMS)
SET_EXEC_VALUE(cuGraphExecChildGraphNodeSetParams, CU_GRAPH_NODE_TYPE_GRAPH, CUgraph)
SET_EXEC_VALUE(cuGraphExecEventRecordNodeSetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent)
SET_EXEC_VALUE(cuGraphExecEventWaitNodeSetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent)

EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams p = params_of(CU_GRAPH_NODE_TYPE_EVENT_RECORD, &event, sizeof(event));

	return set(NULL, hNode, &p);
}

EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams p = params_of(CU_GRAPH_NODE_TYPE_WAIT_EVENT, &event, sizeof(event));

	return set(NULL, hNode, &p);
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				    const CUgraphNode *dependencies, size_t numDependencies)
{
	CUgraphNodeParams p = { .type = CU_GRAPH_NODE_TYPE_EMPTY };

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

/* Copies and fills run in the current context. */
EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams p;

	(void)ctx;
	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	p = params_of(CU_GRAPH_NODE_TYPE_MEMCPY, copyParams, sizeof(*copyParams));
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams p;

	(void)ctx;
	if (!memsetParams)
		return CUDA_ERROR_INVALID_VALUE;
	p = params_of(CU_GRAPH_NODE_TYPE_MEMSET, memsetParams, sizeof(*memsetParams));
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					       const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams p;

	(void)ctx;
	if (!copyParams || !hGraphExec)
		return CUDA_ERROR_INVALID_VALUE;
	p = params_of(CU_GRAPH_NODE_TYPE_MEMCPY, copyParams, sizeof(*copyParams));
	return set(hGraphExec, hNode, &p);
}

EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					       const CUDA_MEMSET_NODE_PARAMS *memsetParams,
					       CUcontext ctx)
{
	CUgraphNodeParams p;

	(void)ctx;
	if (!memsetParams || !hGraphExec)
		return CUDA_ERROR_INVALID_VALUE;
	p = params_of(CU_GRAPH_NODE_TYPE_MEMSET, memsetParams, sizeof(*memsetParams));
	return set(hGraphExec, hNode, &p);
}

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p;
	CUresult result;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	p = params_of(CU_GRAPH_NODE_TYPE_MEM_ALLOC, nodeParams, sizeof(*nodeParams));
	result = add(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
	nodeParams->dptr = p.alloc.dptr;
	return result;
}
