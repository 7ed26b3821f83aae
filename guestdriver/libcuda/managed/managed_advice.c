/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice about managed memory, and prefetches. Pages stay where they are, in this process's memory,
 * so neither has an effect; what was asked for is remembered for each page, and can be read back.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "devices/device.h"
#include "hostmemory/advice.h"
#include "managed/managed.h"
#include "streams/capture.h"
#include "streams/stream.h"

_Static_assert(DEVICES_MAX <= 64, "accessed_by has a bit for each device");

/* The whole pages of a range of managed memory, and whose they are. */
static CUresult pages_of(uint64_t address, uint64_t count, uint64_t *base, uint64_t *end,
			 struct memory *m)
{
	if (!managed_find(address, count, m))
		return CUDA_ERROR_INVALID_VALUE;
	*base = page_begin(address);
	*end = page_end(address + count);
	return CUDA_SUCCESS;
}

/* Calls `change` with the advice of each page in a range. */
static CUresult change_pages(uint64_t address, uint64_t count,
			     void (*change)(struct advice *a, CUmemLocation l),
			     CUmemLocation location)
{
	uint64_t base, end;
	struct memory m;
	CUresult result = pages_of(address, count, &base, &end, &m);

	return result ? result : advice_change(&m, base, end, change, location);
}

static bool node_known(int id)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", id);
	return id == 0 || (id > 0 && !access(path, F_OK));
}

/* Checks a location, and clears the fields that mean nothing, so that it can be compared. */
static CUresult settle_location(CUmemLocation *l)
{
	unsigned cpu, node;

	switch (l->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return device_valid(l->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
		l->id = 0;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		l->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		l->id = getcpu(&cpu, &node) ? 0 : (int)node;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return node_known(l->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* A location as functions before CUDA 12.2 name it. */
static CUmemLocation location_of(CUdevice device)
{
	return device == CU_DEVICE_CPU ? (CUmemLocation){ CU_MEM_LOCATION_TYPE_HOST, 0 } :
					 (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, device };
}

static void set_read_mostly(struct advice *a, CUmemLocation l)
{
	(void)l;
	a->read_mostly = true;
}

static void unset_read_mostly(struct advice *a, CUmemLocation l)
{
	(void)l;
	a->read_mostly = false;
}

static void set_preferred(struct advice *a, CUmemLocation l)
{
	a->preferred = l;
}

static void unset_preferred(struct advice *a, CUmemLocation l)
{
	(void)l;
	a->preferred = (CUmemLocation){ CU_MEM_LOCATION_TYPE_INVALID, 0 };
}

static void set_accessed_by(struct advice *a, CUmemLocation l)
{
	if (l.type == CU_MEM_LOCATION_TYPE_DEVICE)
		a->accessed_by |= 1ull << l.id;
	else
		a->accessed_by_host = true;
}

static void unset_accessed_by(struct advice *a, CUmemLocation l)
{
	if (l.type == CU_MEM_LOCATION_TYPE_DEVICE)
		a->accessed_by &= ~(1ull << l.id);
	else
		a->accessed_by_host = false;
}

static void set_prefetched(struct advice *a, CUmemLocation l)
{
	a->prefetched = l;
}

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
			       CUmemLocation location)
{
	static const struct {
		void (*change)(struct advice *a, CUmemLocation l);
		bool located; /* the location says something */
		bool numa; /* it may be a node of the host's */
	} known[] = {
		[CU_MEM_ADVISE_SET_READ_MOSTLY] = { set_read_mostly, false, false },
		[CU_MEM_ADVISE_UNSET_READ_MOSTLY] = { unset_read_mostly, false, false },
		[CU_MEM_ADVISE_SET_PREFERRED_LOCATION] = { set_preferred, true, true },
		[CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION] = { unset_preferred, false, false },
		[CU_MEM_ADVISE_SET_ACCESSED_BY] = { set_accessed_by, true, false },
		[CU_MEM_ADVISE_UNSET_ACCESSED_BY] = { unset_accessed_by, true, false },
	};
	CUresult result = CUDA_SUCCESS;

	ENTER_CONTEXT();
	if (!count || advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
	    advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return CUDA_ERROR_INVALID_VALUE;
	if (known[advice].located)
		result = settle_location(&location);
	if (!result && known[advice].located && !known[advice].numa &&
	    location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : change_pages(devPtr, count, known[advice].change, location);
}

EXPORT CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

static CUresult check_stream(CUstream stream)
{
	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	return capture_of(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static CUresult prefetch(CUdeviceptr address, size_t count, CUmemLocation location)
{
	CUresult result = settle_location(&location);

	return result ? result : change_pages(address, count, set_prefetched, location);
}

EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
				      unsigned int flags, CUstream hStream)
{
	CUresult result;

	ENTER_CONTEXT();
	if (!count || flags) /* before the location, as for advice */
		return CUDA_ERROR_INVALID_VALUE;
	result = check_stream(hStream);
	return result ? result : prefetch(devPtr, count, location);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
				   CUstream hStream)
{
	return cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream);
}

/* Each location is for the ranges from its index to the next one's. */
static CUresult check_batch(CUdeviceptr *dptrs, size_t *sizes, size_t count,
			    CUmemLocation *locations, const size_t *indices, size_t n)
{
	if (!dptrs || !sizes || !count || !locations || !indices || !n || n > count || indices[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 1; i < n; i++)
		if (indices[i] <= indices[i - 1] || indices[i] >= count)
			return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct memory m;

		if (!managed_find(dptrs[i], sizes[i], &m))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
					CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
					size_t numPrefetchLocs, unsigned long long flags,
					CUstream hStream)
{
	size_t k = 0;
	CUresult result;

	ENTER_CONTEXT();
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_stream(hStream);
	if (!result)
		result = check_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
				     numPrefetchLocs);
	for (size_t i = 0; !result && i < count; i++) {
		if (k + 1 < numPrefetchLocs && prefetchLocIdxs[k + 1] == i)
			k++;
		result = prefetch(dptrs[i], sizes[i], prefetchLocs[k]);
	}
	return result;
}

/*
 * Discarded memory has indeterminate contents until it is written again, so it may keep those that
 * it has.
 */
EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				       unsigned long long flags, CUstream hStream)
{
	CUmemLocation anywhere = { 0 };
	size_t first = 0;
	CUresult result;

	ENTER_CONTEXT();
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_stream(hStream);
	return result ? result : check_batch(dptrs, sizes, count, &anywhere, &first, 1);
}

EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
						  CUmemLocation *prefetchLocs,
						  size_t *prefetchLocIdxs, size_t numPrefetchLocs,
						  unsigned long long flags, CUstream hStream)
{
	return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
				       numPrefetchLocs, flags, hStream);
}

/* A location as one number. */
static int device_of(const CUmemLocation *l)
{
	return l->type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID :
	       l->type == CU_MEM_LOCATION_TYPE_DEVICE  ? l->id :
							 CU_DEVICE_CPU;
}

static int id_of(const CUmemLocation *l)
{
	return l->type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : l->id;
}

static CUresult accessors(int *data, size_t room, const struct advice *a)
{
	size_t n = 0;

	for (int device = 0; device < (int)devices.count && n < room; device++)
		if (a->accessed_by >> device & 1)
			data[n++] = device;
	if (a->accessed_by_host && n < room)
		data[n++] = CU_DEVICE_CPU;
	while (n < room)
		data[n++] = CU_DEVICE_INVALID;
	return CUDA_SUCCESS;
}

static CUresult value_of(int *data, size_t bytes, CUmem_range_attribute attribute,
			 const struct advice *a)
{
	if (!data || !bytes || bytes % sizeof(*data) ||
	    (bytes != sizeof(*data) && attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY))
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*data = a->read_mostly;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*data = device_of(&a->preferred);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		return accessors(data, bytes / sizeof(*data), a);
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*data = device_of(&a->prefetched);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*data = a->preferred.type;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*data = id_of(&a->preferred);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*data = a->prefetched.type;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*data = id_of(&a->prefetched);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes,
					CUmem_range_attribute *attributes, size_t numAttributes,
					CUdeviceptr devPtr, size_t count)
{
	uint64_t base, end;
	struct advice a;
	struct memory m;
	CUresult result;

	ENTER();
	if (!data || !dataSizes || !attributes || !numAttributes)
		return CUDA_ERROR_INVALID_VALUE;
	result = pages_of(devPtr, count, &base, &end, &m);
	if (result)
		return result;
	a = advice_common(base, end);
	for (size_t i = 0; !result && i < numAttributes; i++)
		result = value_of(data[i], dataSizes[i], attributes[i], &a);
	return result;
}

EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
				       CUdeviceptr devPtr, size_t count)
{
	return cuMemRangeGetAttributes(&data, &dataSize, &attribute, 1, devPtr, count);
}
