/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes do, as the host says. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/zz_generated_calls.h"
#include "graphs/graph.h"
#include "streams/host_function.h"

#define RECORD_FIRST 4096

/* Fetches a node's record; the caller frees it. */
static CUresult fetch(CUgraphNode node, uint64_t **word, uint64_t *bytes)
{
	uint64_t room = RECORD_FIRST;

	for (;;) {
		CUresult result;

		*word = calloc(1, room);
		if (!*word)
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = call_GraphNodeGet(number_of(node), *word, room, bytes);
		if (!result && *bytes >= 8 && *bytes <= room)
			return CUDA_SUCCESS;
		free(*word);
		if (result || *bytes <= room || *bytes > RECORD_MAX)
			return result ? result : CUDA_ERROR_UNKNOWN;
		room = *bytes;
	}
}

/*
 * Both handles of what a node launches, as far as the program has them: newer runtimes know their
 * kernels by CUkernel, older ones by CUfunction.
 */
static CUresult name_kernel(CUDA_KERNEL_NODE_PARAMS *k, const struct function *f)
{
	uint64_t of = __atomic_load_n(&f->of, __ATOMIC_RELAXED);

	k->kern = (CUkernel)(uintptr_t)(f->kernel ? f->number : of);
	if (f->kernel)
		return cuKernelGetFunction(&k->func, k->kern);
	k->func = (CUfunction)(uintptr_t)f->number;
	return CUDA_SUCCESS;
}

/* Pointers to each parameter in the record, in an array that takes the record's place. */
static CUresult kernel(CUDA_KERNEL_NODE_PARAMS *k, uint64_t **word, uint64_t bytes)
{
	struct node_kernel n;
	struct description *d;
	struct function *f;
	void **pointers;
	uint8_t *data;

	if (!node_kernel_read(&n, *word, bytes))
		return CUDA_ERROR_NOT_SUPPORTED;
	f = function_find((void *)(uintptr_t)n.function);
	if (!f || function_describe(f, &d) || d->parameter_bytes > n.parameter_bytes)
		return CUDA_ERROR_NOT_SUPPORTED;
	pointers = malloc(d->parameters * sizeof(*pointers) + n.parameter_bytes + 1);
	if (!pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	data = (uint8_t *)&pointers[d->parameters];
	memcpy(data, n.parameters, n.parameter_bytes);
	for (unsigned i = 0; i < d->parameters; i++)
		pointers[i] = data + d->parameter[i].offset;
	*k = (CUDA_KERNEL_NODE_PARAMS){
		.gridDimX = n.grid_x,
		.gridDimY = n.grid_y,
		.gridDimZ = n.grid_z,
		.blockDimX = n.block_x,
		.blockDimY = n.block_y,
		.blockDimZ = n.block_z,
		.sharedMemBytes = (uint32_t)n.shared,
		.kernelParams = d->parameters ? pointers : NULL,
	};
	k->ctx = context_current();
	free(*word);
	*word = (uint64_t *)(void *)pointers;
	return name_kernel(k, f);
}

static void copy(CUDA_MEMCPY3D *c, const struct node_memcpy *n)
{
	*c = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = n->src,
		.srcPitch = n->src_pitch,
		.srcHeight = n->src_pitch ? n->src_slice / n->src_pitch : 0,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = n->dst,
		.dstPitch = n->dst_pitch,
		.dstHeight = n->dst_pitch ? n->dst_slice / n->dst_pitch : 0,
		.WidthInBytes = n->width,
		.Height = n->height,
		.Depth = n->depth,
	};
}

static void fill(CUDA_MEMSET_NODE_PARAMS_v2 *p, const struct node_memset *n)
{
	*p = (CUDA_MEMSET_NODE_PARAMS_v2){
		.dst = n->dst,
		.pitch = n->pitch,
		.value = (uint32_t)n->value,
		.elementSize = (uint32_t)n->element,
		.width = n->width,
		.height = n->height,
	};
}

/* What the parameters point to stays in the record. */
static void alloc(CUDA_MEM_ALLOC_NODE_PARAMS *p, const struct node_mem_alloc *n)
{
	p->bytesize = n->bytes;
	p->dptr = n->address;
	memcpy(&p->poolProps, n->pool, sizeof(p->poolProps));
	p->accessDescCount = n->access_count;
	p->accessDescs = n->access_count ? n->access : NULL;
}

static void ops(CUDA_BATCH_MEM_OP_NODE_PARAMS *p, const struct node_mem_ops *n)
{
	*p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
		.ctx = context_current(),
		.count = (uint32_t)n->count,
		.paramArray = (CUstreamBatchMemOpParams *)(uintptr_t)n->ops,
		.flags = (uint32_t)n->flags,
	};
}

/* Reads a record that names at most one object; false if it isn't such a record. */
static bool read_name(CUgraphNodeParams *p, const uint64_t *word, uint64_t bytes)
{
	union {
		struct node_graph graph;
		struct node_empty empty;
		struct node_event_wait wait;
		struct node_event_record record;
		struct node_mem_free freed;
	} n;
	bool ok = false;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_GRAPH:
		ok = node_graph_read(&n.graph, word, bytes);
		if (ok)
			p->graph.graph = (CUgraph)(uintptr_t)n.graph.graph;
		break;
	case CU_GRAPH_NODE_TYPE_EMPTY:
		ok = node_empty_read(&n.empty, word, bytes);
		break;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		ok = node_event_wait_read(&n.wait, word, bytes);
		if (ok)
			p->eventWait.event = (CUevent)(uintptr_t)n.wait.event;
		break;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		ok = node_event_record_read(&n.record, word, bytes);
		if (ok)
			p->eventWait.event = (CUevent)(uintptr_t)n.record.event;
		break;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		ok = node_mem_free_read(&n.freed, word, bytes);
		if (ok)
			p->free.dptr = n.freed.address;
		break;
	default:
		break;
	}
	return ok;
}

/* Reads a record of any kind but a kernel's; false if it isn't such a record. */
static bool read_plain(CUgraphNodeParams *p, const uint64_t *word, uint64_t bytes)
{
	union {
		struct node_memcpy copy;
		struct node_memset fill;
		struct node_host host;
		struct node_mem_alloc alloc;
		struct node_mem_ops ops;
	} n;
	bool ok;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		ok = node_memcpy_read(&n.copy, word, bytes);
		if (ok)
			copy(&p->memcpy.copyParams, &n.copy);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		ok = node_memset_read(&n.fill, word, bytes);
		if (ok)
			fill(&p->memset, &n.fill);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		ok = node_host_read(&n.host, word, bytes) &&
		     host_function_find(n.host.token, &p->host.fn, &p->host.userData);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		ok = node_mem_alloc_read(&n.alloc, word, bytes);
		if (ok)
			alloc(&p->alloc, &n.alloc);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		ok = node_mem_ops_read(&n.ops, word, bytes);
		if (ok)
			ops(&p->memOp, &n.ops);
		break;
	default:
		ok = read_name(p, word, bytes);
		break;
	}
	return ok;
}

static CUresult read_record(CUgraphNodeParams *p, uint64_t **word, uint64_t bytes)
{
	p->type = (CUgraphNodeType) * *word;
	if (p->type == CU_GRAPH_NODE_TYPE_KERNEL)
		return kernel(&p->kernel, word, bytes);
	return read_plain(p, *word, bytes) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult node_params(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *p)
{
	uint64_t *word, bytes;
	struct node *n;
	CUresult result;

	ENTER_CONTEXT();
	memset(p, 0, sizeof(*p));
	result = fetch(node, &word, &bytes);
	if (result)
		return result;
	result =
		word[0] == (uint64_t)type ? read_record(p, &word, bytes) : CUDA_ERROR_INVALID_VALUE;
	n = result ? NULL : node_keep(node);
	if (!n) {
		free(word);
		return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
	}
	free(n->kept);
	n->kept = word;
	if (type == CU_GRAPH_NODE_TYPE_MEMCPY && n->has_copy)
		p->memcpy.copyParams = n->copy;
	return CUDA_SUCCESS;
}

#define GET_NODE(name, kind, params_type, field)                                              \
	EXPORT CUresult name(CUgraphNode hNode, params_type *params_out)                      \
	{                                                                                     \
		CUgraphNodeParams p;                                                          \
		CUresult result =                                                             \
			params_out ? node_params(hNode, kind, &p) : CUDA_ERROR_INVALID_VALUE; \
                                                                                              \
		if (!result)                                                                  \
			memcpy(params_out, &p.field, sizeof(*params_out));                    \
		return result;                                                                \
	}

GET_NODE(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, memcpy.copyParams)
GET_NODE(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, memset)
GET_NODE(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host)
GET_NODE(cuGraphChildGraphNodeGetGraph, CU_GRAPH_NODE_TYPE_GRAPH, CUgraph, graph.graph)
GET_NODE(cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent, eventWait.event)
GET_NODE(cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent, eventWait.event)
GET_NODE(cuGraphMemAllocNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS,
	 alloc)
GET_NODE(cuGraphMemFreeNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_FREE, CUdeviceptr, free.dptr)
GET_NODE(cuGraphBatchMemOpNodeGetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	 CUDA_BATCH_MEM_OP_NODE_PARAMS, memOp)
GET_NODE(cuGraphKernelNodeGetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS, kernel)

EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode,
					   CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUresult result =
		nodeParams ? cuGraphKernelNodeGetParams_v2(hNode, &p) : CUDA_ERROR_INVALID_VALUE;

	if (result)
		return result;
	memcpy(nodeParams, &p, sizeof(*nodeParams)); /* the first fields of the newer one */
	return CUDA_SUCCESS;
}
