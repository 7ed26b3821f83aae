/* SPDX-License-Identifier: Apache-2.0 */
/* Records of node parameters. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "addresses/fill.h"
#include "code/function.h"
#include "copies/copy.h"
#include "graphs/graph.h"
#include "launches/launch.h"
#include "streams/host_function.h"
#include "transport/zz_generated_layouts.h"

/* Makes room for a record. One of no bytes is invalid. */
static CUresult room(struct record *r, size_t bytes)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	r->bytes = bytes;
	r->word = bytes <= sizeof(r->small) ? r->small : malloc(bytes);
	if (!r->word)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memset(r->word, 0, bytes);
	return CUDA_SUCCESS;
}

/* Writes a described record of some kind. */
#define PUT(r, kind, n)                                      \
	({                                                   \
		CUresult result_ = room(r, kind##_bytes(n)); \
                                                             \
		if (!result_)                                \
			kind##_write(n, (r)->word);          \
		result_;                                     \
	})

void record_free(struct record *r)
{
	if (r->word != r->small)
		free(r->word);
}

static CUresult kernel(struct record *r, const CUDA_KERNEL_NODE_PARAMS *p)
{
	struct function *f = function_find(p->func ? (void *)p->func : (void *)p->kern);
	struct description *d;
	const void *data = NULL;
	struct node_kernel n;
	size_t bytes;
	CUresult result;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	result = function_describe(f, &d);
	if (result)
		return result;
	bytes = d->parameter_bytes;
	if (p->extra && !p->kernelParams)
		result = launch_extra(p->extra, &data, &bytes);
	else if (d->parameters && !p->kernelParams)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result)
		return result;
	n = (struct node_kernel){
		.function = f->number,
		.grid_x = p->gridDimX,
		.grid_y = p->gridDimY,
		.grid_z = p->gridDimZ,
		.block_x = p->blockDimX,
		.block_y = p->blockDimY,
		.block_z = p->blockDimZ,
		.shared = p->sharedMemBytes,
		.parameter_bytes = bytes,
		.parameters = data,
	};
	result = PUT(r, node_kernel, &n);
	if (!result && !data && p->kernelParams)
		launch_pack((uint8_t *)(uintptr_t)n.parameters, d, p->kernelParams);
	return result;
}

static CUresult copy(struct record *r, const CUDA_MEMCPY3D *c)
{
	struct node_memcpy n;
	CUresult result = graph_copy(c, &n);

	return result ? result : PUT(r, node_memcpy, &n);
}

static CUresult fill(struct record *r, const CUDA_MEMSET_NODE_PARAMS_v2 *p)
{
	struct node_memset n = {
		.dst = p->dst,
		.pitch = p->pitch,
		.value = p->value,
		.element = p->elementSize,
		.width = p->width,
		.height = p->height,
	};
	CUresult result;

	if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	/* Unlike in a call, the pitch of a single row may be anything. */
	result = fill_check(p->dst, p->width, p->height, p->height > 1 ? p->pitch : 0,
			    p->elementSize);
	return result ? result : PUT(r, node_memset, &n);
}

static CUresult host(struct record *r, const CUDA_HOST_NODE_PARAMS *p)
{
	struct node_host n;
	CUresult result =
		p->fn ? host_function_keep(p->fn, p->userData, &n.token) : CUDA_ERROR_INVALID_VALUE;

	return result ? result : PUT(r, node_host, &n);
}

static CUresult child(struct record *r, CUgraph graph, unsigned ownership)
{
	struct node_graph n = { .graph = number_of(graph), .moved = ownership };

	return PUT(r, node_graph, &n);
}

static CUresult empty(struct record *r)
{
	struct node_empty n;

	return PUT(r, node_empty, &n);
}

static CUresult event(struct record *r, CUgraphNodeType type, CUevent e)
{
	struct node_event_wait wait = { number_of(e) };
	struct node_event_record record = { number_of(e) };

	if (!handle_known(HANDLE_EVENT, e))
		return CUDA_ERROR_INVALID_VALUE;
	return type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? PUT(r, node_event_wait, &wait) :
						       PUT(r, node_event_record, &record);
}

static CUresult alloc(struct record *r, const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	struct node_mem_alloc n = {
		.bytes = p->bytesize,
		.access_count = p->accessDescs ? p->accessDescCount : 0,
		.pool = &p->poolProps,
		.access = p->accessDescs,
	};

	return p->accessDescCount > PARACUDA_MAX_ACCESS_DESCS ? CUDA_ERROR_INVALID_VALUE :
								PUT(r, node_mem_alloc, &n);
}

static CUresult freed(struct record *r, CUdeviceptr address)
{
	struct node_mem_free n = { address };

	return PUT(r, node_mem_free, &n);
}

static CUresult ops(struct record *r, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct node_mem_ops n = { .count = p->count, .flags = p->flags, .ops = p->paramArray };

	return (p->paramArray || !p->count) && p->ctx ? PUT(r, node_mem_ops, &n) :
							CUDA_ERROR_INVALID_VALUE;
}

static CUresult conditional(struct record *r, const CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	struct node_conditional n = { p->handle, (unsigned)p->type, p->size };

	return PUT(r, node_conditional, &n);
}

CUresult record_make(struct record *r, const CUgraphNodeParams *p)
{
	r->word = r->small;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return kernel(r, &p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		if (p->memcpy.flags | p->memcpy.reserved)
			return CUDA_ERROR_INVALID_VALUE;
		return copy(r, &p->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return fill(r, &p->memset);
	case CU_GRAPH_NODE_TYPE_HOST:
		return host(r, &p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return child(r, p->graph.graph, (unsigned)p->graph.ownership);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return empty(r);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return event(r, p->type, p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return alloc(r, &p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return freed(r, p->free.dptr);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return ops(r, &p->memOp);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return conditional(r, &p->conditional);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
