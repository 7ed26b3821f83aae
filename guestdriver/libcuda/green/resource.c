/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of devices, of which green contexts are made. The resources themselves are the worker's:
 * programs hold its handles.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"
#include "paracuda_wire.h"

#define MAGIC 0x53455250u
#define GROUPS_MAX (CUDA_MAX_RESOURCE_RECORDS - 1u) /* one is of what remains */

enum { OF_DEVICE, OF_CONTEXT, OF_GREEN };

/* What this library keeps in a resource, in bytes that CUDA doesn't document. */
struct mark {
	uint32_t magic;
	uint64_t number; /* the worker's handle */
} __attribute__((packed));

_Static_assert(sizeof(struct mark) <= sizeof(((CUdevResource *)0)->_internal_padding),
	       "a mark's place");

/* The worker's handle of a resource, if this library made it. */
static bool marked(const CUdevResource *r, uint64_t *number)
{
	struct mark mark;

	memcpy(&mark, r->_internal_padding, sizeof(mark));
	*number = mark.number;
	return mark.magic == MAGIC;
}

static void fill(CUdevResource *out, const struct paracuda_resource_record *r)
{
	const struct mark mark = { MAGIC, r->resource };

	memset(out, 0, sizeof(*out));
	out->type = (CUdevResourceType)r->type;
	out->sm.smCount = r->count;
	out->sm.minSmPartitionSize = r->min_partition;
	out->sm.smCoscheduledAlignment = r->alignment;
	memcpy(out->_internal_padding, &mark, sizeof(mark));
}

static CUresult get(int of, uint64_t which, CUdevResource *resource, CUdevResourceType type)
{
	struct paracuda_resource_record record = { 0 };
	struct argument to;
	struct buffer b;
	CUresult result = buffer_out(&to, &b, &record, sizeof(record));

	if (!result)
		result = call_DevResource((uint64_t)of, which, (uint64_t)(unsigned)type, to);
	buffer_done(&b);
	if (!result)
		fill(resource, &record);
	return result;
}

EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
				       CUdevResourceType type)
{
	ENTER();
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return get(OF_DEVICE, device_host(device), resource, type);
}

EXPORT CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	ENTER();
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (!hCtx || !context_known(hCtx) || !context_alive(hCtx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return get(OF_CONTEXT, hCtx->handle, resource, type);
}

EXPORT CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource,
					 CUdevResourceType type)
{
	ENTER();
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_GREEN, hCtx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return get(OF_GREEN, number_of(hCtx), resource, type);
}

/*
 * Splits into at most `groups` groups; records[0] is what remains. Without records it only counts.
 */
static CUresult split(uint64_t input, unsigned flags, unsigned least,
		      struct paracuda_resource_record *records, unsigned groups, unsigned *made)
{
	struct argument to;
	struct buffer b;
	uint64_t count = 0;
	CUresult result =
		buffer_out(&to, &b, records, records ? (1 + groups) * sizeof(*records) : 0);

	if (!result)
		result = call_ResourceSplit(input, flags, least, to, &count);
	buffer_done(&b);
	if (!result && records && count > groups)
		return CUDA_ERROR_UNKNOWN;
	*made = (unsigned)count;
	return result;
}

EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
					    const CUdevResource *input, CUdevResource *remaining,
					    unsigned int useFlags, unsigned int minCount)
{
	struct paracuda_resource_record *records;
	unsigned groups, made;
	uint64_t number;
	CUresult error;

	ENTER();
	if (!nbGroups || !input || (result && !*nbGroups))
		return CUDA_ERROR_INVALID_VALUE;
	if (input->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (!marked(input, &number))
		return CUDA_ERROR_INVALID_VALUE;
	if (!result)
		return split(number, useFlags, minCount, NULL, 0, nbGroups);
	groups = *nbGroups < GROUPS_MAX ? *nbGroups : GROUPS_MAX;
	records = calloc(1 + groups, sizeof(*records));
	if (!records)
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = split(number, useFlags, minCount, records, groups, &made);
	if (!error) {
		for (unsigned i = 0; i < made; i++)
			fill(&result[i], &records[1 + i]);
		if (remaining)
			fill(remaining, &records[0]);
		*nbGroups = made;
	}
	free(records);
	return error;
}

EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
					  unsigned int nbResources)
{
	uint64_t numbers[PARACUDA_MAX_DESCRIBED], desc = 0;
	struct argument list;
	struct buffer b;
	CUresult result;

	ENTER();
	if (!phDesc || !resources || !nbResources || nbResources > PARACUDA_MAX_DESCRIBED)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < nbResources; i++) {
		if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		if (!marked(&resources[i], &numbers[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	result = buffer_in(&list, &b, numbers, nbResources * sizeof(numbers[0]));
	if (!result)
		result = call_ResourceDesc(list, &desc);
	buffer_done(&b);
	if (!result)
		*phDesc = (CUdevResourceDesc)(uintptr_t)desc;
	return result;
}
