/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of devices, of which green contexts are made. The resources themselves are the worker's: programs hold its handles. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"
#include "paracuda_wire.h"

#define MAGIC 0x53455250u
#define GROUPS_MAX (PARACUDA_MAX_RESOURCE_RECORDS - 1u)	/* one is of what remains */

enum { OF_DEVICE, OF_CONTEXT, OF_GREEN };

static void fill(CUdevResource *out, const struct paracuda_resource_record *r)
{
	memset(out, 0, sizeof(*out));
	out->type = (CUdevResourceType)r->type;
	out->magic = MAGIC;
	out->number = r->resource;
	out->count = r->count;
	out->min_partition = r->min_partition;
	out->alignment = r->alignment;
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

EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
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

EXPORT CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	ENTER();
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_GREEN, hCtx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return get(OF_GREEN, number_of(hCtx), resource, type);
}

/* Splits into `groups` groups at most; records[0] is what remains. Without records it only counts. */
static CUresult split(const CUdevResource *input, unsigned flags, unsigned least,
		      struct paracuda_resource_record *records, unsigned groups, unsigned *made)
{
	struct argument to;
	struct buffer b;
	uint64_t count = 0;
	CUresult result = buffer_out(&to, &b, records, records ? (1 + groups) * sizeof(*records) : 0);

	if (!result)
		result = call_ResourceSplit(input->number, flags, least, to, &count);
	buffer_done(&b);
	if (!result && records && count > groups)
		return CUDA_ERROR_UNKNOWN;
	*made = (unsigned)count;
	return result;
}

EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
					    CUdevResource *remaining, unsigned int useFlags, unsigned int minCount)
{
	struct paracuda_resource_record *records;
	unsigned groups, made;
	CUresult error;

	ENTER();
	if (!nbGroups || !input || (result && !*nbGroups))
		return CUDA_ERROR_INVALID_VALUE;
	if (input->type != RESOURCE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (input->magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (!result)
		return split(input, useFlags, minCount, NULL, 0, nbGroups);
	groups = *nbGroups < GROUPS_MAX ? *nbGroups : GROUPS_MAX;
	records = calloc(1 + groups, sizeof(*records));
	if (!records)
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = split(input, useFlags, minCount, records, groups, &made);
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

EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources)
{
	uint64_t numbers[PARACUDA_MAX_DESCRIBED], desc = 0;
	struct argument list;
	struct buffer b;
	CUresult result;

	ENTER();
	if (!phDesc || !resources || !nbResources || nbResources > PARACUDA_MAX_DESCRIBED)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < nbResources; i++) {
		if (resources[i].type != RESOURCE_SM)
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		if (resources[i].magic != MAGIC)
			return CUDA_ERROR_INVALID_VALUE;
		numbers[i] = resources[i].number;
	}
	result = buffer_in(&list, &b, numbers, nbResources * sizeof(numbers[0]));
	if (!result)
		result = call_ResourceDesc(list, &desc);
	buffer_done(&b);
	if (!result)
		*phDesc = (CUdevResourceDesc)(uintptr_t)desc;
	return result;
}
