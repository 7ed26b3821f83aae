/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes do, as the host has it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/function.h"
#include "context/zz_generated_calls.h"
#include "graphs/graph.h"
#include "streams/host_function.h"

#define RECORD_FIRST 4096
#define RECORD_MAX (1u << 20)

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
 * Both names of what a node launches, as far as the program has them: newer runtimes know their kernels by CUkernel,
 * older ones by CUfunction.
 */
static CUresult name_kernel(CUDA_KERNEL_NODE_PARAMS *k, const struct function *f)
{
	uint64_t of = __atomic_load_n(&f->of, __ATOMIC_RELAXED);

	k->kern = (CUkernel)(uintptr_t)(f->kernel ? f->number : of);
	if (f->kernel)
		return cuKernelGetFunction(&k->v1.func, k->kern);
	k->v1.func = (CUfunction)(uintptr_t)f->number;
	return CUDA_SUCCESS;
}

/* Pointers to each parameter in the record, in an array that takes the record's place. */
static CUresult kernel(CUDA_KERNEL_NODE_PARAMS *k, uint64_t **word, uint64_t bytes)
{
	CUDA_KERNEL_NODE_PARAMS_v1 *p = &k->v1;
	const uint64_t *w = *word;
	struct function *f = function_find((void *)(uintptr_t)w[1]);
	struct description *d;
	void **pointers;
	uint8_t *data;

	if (bytes < 7 * 8 || w[6] > bytes - 7 * 8 || !f || function_describe(f, &d) || d->parameter_bytes > w[6])
		return CUDA_ERROR_NOT_SUPPORTED;
	pointers = malloc(d->parameters * sizeof(*pointers) + w[6] + 1);
	if (!pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	data = (uint8_t *)&pointers[d->parameters];
	memcpy(data, &w[7], w[6]);
	for (unsigned i = 0; i < d->parameters; i++)
		pointers[i] = data + d->parameter[i].offset;
	*p = (CUDA_KERNEL_NODE_PARAMS_v1){
		.gridDimX = (uint32_t)w[2], .gridDimY = (uint32_t)(w[2] >> 32), .gridDimZ = (uint32_t)w[3],
		.blockDimX = (uint32_t)(w[3] >> 32), .blockDimY = (uint32_t)w[4], .blockDimZ = (uint32_t)(w[4] >> 32),
		.sharedMemBytes = (uint32_t)w[5],
		.kernelParams = d->parameters ? pointers : NULL,
	};
	k->ctx = context_current();
	free(*word);
	*word = (uint64_t *)(void *)pointers;
	return name_kernel(k, f);
}

static void copy(CUDA_MEMCPY3D *c, const uint64_t *w)
{
	*c = (CUDA_MEMCPY3D){
		.srcMemoryType = MEMORYTYPE_UNIFIED, .srcDevice = w[4], .srcPitch = w[5],
		.srcHeight = w[5] ? w[6] / w[5] : 0,
		.dstMemoryType = MEMORYTYPE_UNIFIED, .dstDevice = w[1], .dstPitch = w[2],
		.dstHeight = w[2] ? w[3] / w[2] : 0,
		.WidthInBytes = w[7], .Height = w[8], .Depth = w[9],
	};
}

static CUresult host(CUDA_HOST_NODE_PARAMS *p, uint64_t token)
{
	return host_function_find(token, &p->fn, &p->userData) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* Words that a record of each type has at least, its type among them. */
static const unsigned least[] = { 7, 10, 7, 2, 3, 1, 2, 2, 99, 99, 4, 2, 3, 99 };

static CUresult read_record(CUgraphNodeParams *p, uint64_t **word, uint64_t bytes)
{
	const uint64_t *w = *word;

	p->type = (CUgraphNodeType)w[0];
	if (w[0] >= sizeof(least) / sizeof(least[0]) || bytes < least[w[0]] * 8)
		return CUDA_ERROR_NOT_SUPPORTED;
	switch (p->type) {
	case NODE_KERNEL:
		return kernel(&p->u.kernel, word, bytes);
	case NODE_MEMCPY:
		copy(&p->u.copy.copyParams, w);
		break;
	case NODE_MEMSET:
		p->u.fill = (CUDA_MEMSET_NODE_PARAMS){ w[1], w[2], (uint32_t)w[3], (uint32_t)w[4], w[5], w[6] };
		break;
	case NODE_HOST:
		return host(&p->u.host, w[1]);
	case NODE_GRAPH:
		p->u.graph.graph = (CUgraph)(uintptr_t)w[1];
		break;
	case NODE_EVENT_WAIT:
	case NODE_EVENT_RECORD:
		p->u.event = (CUevent)(uintptr_t)w[1];
		break;
	case NODE_MEM_ALLOC:
		p->u.alloc.bytesize = w[1];
		p->u.alloc.dptr = w[2];
		if (bytes >= 32 + sizeof(p->u.alloc.poolProps) && w[3] <= (bytes - 120) / 12) {
			memcpy(p->u.alloc.poolProps, &w[4], sizeof(p->u.alloc.poolProps));
			p->u.alloc.accessDescCount = w[3];
			p->u.alloc.accessDescs = w[3] ? (const uint8_t *)&w[4] + sizeof(p->u.alloc.poolProps) : NULL;
		}
		break;
	case NODE_MEM_FREE:
		p->u.freed = w[1];
		break;
	case NODE_MEM_OPS:
		if (w[1] > (bytes - 24) / sizeof(CUstreamBatchMemOpParams))
			return CUDA_ERROR_UNKNOWN;
		p->u.ops = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
			context_current(), (uint32_t)w[1], (CUstreamBatchMemOpParams *)(void *)(*word + 3), (uint32_t)w[2],
		};
	}
	return CUDA_SUCCESS;
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
	result = word[0] == (uint64_t)type ? read_record(p, &word, bytes) : CUDA_ERROR_INVALID_VALUE;
	n = result ? NULL : node_keep(node);
	if (!n) {
		free(word);
		return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
	}
	free(n->kept);
	n->kept = word;
	if (type == NODE_MEMCPY && n->has_copy)
		p->u.copy.copyParams = n->copy;
	return CUDA_SUCCESS;
}

#define GET_NODE(name, kind, params_type, field)                                                                  \
	EXPORT CUresult name(CUgraphNode hNode, params_type *params_out)                                          \
	{                                                                                                         \
		CUgraphNodeParams p;                                                                              \
		CUresult result = params_out ? node_params(hNode, kind, &p) : CUDA_ERROR_INVALID_VALUE;           \
										                                  \
		if (!result)                                                                                      \
			memcpy(params_out, &p.u.field, sizeof(*params_out));                                      \
		return result;                                                                                    \
	}

GET_NODE(cuGraphMemcpyNodeGetParams, NODE_MEMCPY, CUDA_MEMCPY3D, copy.copyParams)
GET_NODE(cuGraphMemsetNodeGetParams, NODE_MEMSET, CUDA_MEMSET_NODE_PARAMS, fill)
GET_NODE(cuGraphHostNodeGetParams, NODE_HOST, CUDA_HOST_NODE_PARAMS, host)
GET_NODE(cuGraphChildGraphNodeGetGraph, NODE_GRAPH, CUgraph, graph.graph)
GET_NODE(cuGraphEventRecordNodeGetEvent, NODE_EVENT_RECORD, CUevent, event)
GET_NODE(cuGraphEventWaitNodeGetEvent, NODE_EVENT_WAIT, CUevent, event)
GET_NODE(cuGraphMemAllocNodeGetParams, NODE_MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS, alloc)
GET_NODE(cuGraphMemFreeNodeGetParams, NODE_MEM_FREE, CUdeviceptr, freed)
GET_NODE(cuGraphBatchMemOpNodeGetParams, NODE_MEM_OPS, CUDA_BATCH_MEM_OP_NODE_PARAMS, ops)
GET_NODE(cuGraphKernelNodeGetParams_v2, NODE_KERNEL, CUDA_KERNEL_NODE_PARAMS, kernel)

EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUresult result = nodeParams ? cuGraphKernelNodeGetParams_v2(hNode, &p) : CUDA_ERROR_INVALID_VALUE;

	if (result)
		return result;
	*nodeParams = p.v1;
	return CUDA_SUCCESS;
}
