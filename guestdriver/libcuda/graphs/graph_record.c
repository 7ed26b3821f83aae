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

#define MEM_OPS_MAX 256

/* Room for a record of so many words and bytes behind them. */
static CUresult room(struct record *r, unsigned type, size_t words, size_t bytes)
{
	r->bytes = (1 + words) * 8 + bytes;
	r->word = r->bytes <= sizeof(r->small) ? r->small : malloc(r->bytes);
	if (!r->word)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memset(r->word, 0, r->bytes);
	r->word[0] = type;
	return CUDA_SUCCESS;
}

void record_free(struct record *r)
{
	if (r->word != r->small)
		free(r->word);
}

static CUresult kernel(struct record *r, const CUDA_KERNEL_NODE_PARAMS *k)
{
	const CUDA_KERNEL_NODE_PARAMS_v1 *p = &k->v1;
	struct function *f = function_find(p->func ? (void *)p->func : (void *)k->kern);
	struct description *d;
	const void *data = NULL;
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
	if (!result)
		result = room(r, NODE_KERNEL, 6, bytes);
	if (result)
		return result;
	r->word[1] = f->number;
	r->word[2] = p->gridDimX | (uint64_t)p->gridDimY << 32;
	r->word[3] = p->gridDimZ | (uint64_t)p->blockDimX << 32;
	r->word[4] = p->blockDimY | (uint64_t)p->blockDimZ << 32;
	r->word[5] = p->sharedMemBytes;
	r->word[6] = bytes;
	if (data)
		memcpy(&r->word[7], data, bytes);
	else if (p->kernelParams)
		launch_pack((uint8_t *)&r->word[7], d, p->kernelParams);
	return CUDA_SUCCESS;
}

static CUresult copy(struct record *r, const CUDA_MEMCPY3D *c)
{
	CUresult result = room(r, NODE_MEMCPY, 9, 0);

	return result ? result : graph_copy_words(c, &r->word[1]);
}

static CUresult fill(struct record *r, const CUDA_MEMSET_NODE_PARAMS *p)
{
	CUresult result = CUDA_SUCCESS;

	if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	result = fill_check(p->dst, p->width, p->height, p->pitch, p->elementSize);
	if (!result)
		result = room(r, NODE_MEMSET, 6, 0);
	if (result)
		return result;
	memcpy(&r->word[1], (uint64_t[]){ p->dst, p->pitch, p->value, p->elementSize, p->width, p->height }, 48);
	return CUDA_SUCCESS;
}

static CUresult words(struct record *r, unsigned type, uint64_t a, uint64_t b, uint64_t c, size_t n)
{
	CUresult result = room(r, type, n, 0);

	if (result)
		return result;
	for (size_t i = 0; i < n; i++)
		r->word[1 + i] = (uint64_t[]){ a, b, c }[i];
	return CUDA_SUCCESS;
}

static CUresult host(struct record *r, const CUDA_HOST_NODE_PARAMS *p)
{
	uint64_t token;
	CUresult result = p->fn ? host_function_keep(p->fn, p->userData, &token) : CUDA_ERROR_INVALID_VALUE;

	return result ? result : words(r, NODE_HOST, token, 0, 0, 1);
}

static CUresult alloc(struct record *r, const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	size_t access = p->accessDescs ? p->accessDescCount * 12 : 0;
	CUresult result = p->accessDescCount > 64 ? CUDA_ERROR_INVALID_VALUE :
						     room(r, NODE_MEM_ALLOC, 3, sizeof(p->poolProps) + access);

	if (result)
		return result;
	r->word[1] = p->bytesize;
	r->word[3] = access / 12;
	memcpy(&r->word[4], p->poolProps, sizeof(p->poolProps));
	if (access)
		memcpy((uint8_t *)&r->word[4] + sizeof(p->poolProps), p->accessDescs, access);
	return CUDA_SUCCESS;
}

static CUresult ops(struct record *r, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	size_t bytes = p->count * sizeof(*p->paramArray);
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (p->count < MEM_OPS_MAX && (p->paramArray || !p->count) && p->ctx)
		result = room(r, NODE_MEM_OPS, 2, bytes);
	if (result)
		return result;
	r->word[1] = p->count;
	r->word[2] = p->flags;
	if (bytes)
		memcpy(&r->word[3], p->paramArray, bytes);
	return CUDA_SUCCESS;
}

CUresult record_make(struct record *r, const CUgraphNodeParams *p)
{
	r->word = r->small;
	switch (p->type) {
	case NODE_KERNEL:
		return kernel(r, &p->u.kernel);
	case NODE_MEMCPY:
		if (p->u.copy.flags | p->u.copy.reserved)
			return CUDA_ERROR_INVALID_VALUE;
		return copy(r, &p->u.copy.copyParams);
	case NODE_MEMSET:
		return fill(r, &p->u.fill);
	case NODE_HOST:
		return host(r, &p->u.host);
	case NODE_GRAPH:
		return words(r, NODE_GRAPH, number_of(p->u.graph.graph), (unsigned)p->u.graph.ownership, 0, 2);
	case NODE_EMPTY:
		return words(r, NODE_EMPTY, 0, 0, 0, 0);
	case NODE_EVENT_WAIT:
	case NODE_EVENT_RECORD:
		if (!handle_known(HANDLE_EVENT, p->u.event))
			return CUDA_ERROR_INVALID_VALUE;
		return words(r, (unsigned)p->type, number_of(p->u.event), 0, 0, 1);
	case NODE_MEM_ALLOC:
		return alloc(r, &p->u.alloc);
	case NODE_MEM_FREE:
		return words(r, NODE_MEM_FREE, p->u.freed, 0, 0, 1);
	case NODE_MEM_OPS:
		return ops(r, &p->u.ops);
	case NODE_CONDITIONAL:
		return words(r, NODE_CONDITIONAL, p->u.conditional.handle, (unsigned)p->u.conditional.type,
			     p->u.conditional.size, 3);
	case NODE_SEMAPHORE_SIGNAL:
	case NODE_SEMAPHORE_WAIT:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
