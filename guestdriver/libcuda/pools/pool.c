/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools and allocation in stream order. The pools themselves are the worker's. */
#define _GNU_SOURCE
#include <string.h>

#include "pools/pool.h"

#include "addresses/graph_memory.h"
#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"
#include "devices/peers.h"
#include "sharing/share.h"
#include "streams/capture.h"
#include "streams/stream.h"

/* Attributes (CUmemPool_attribute) up to here are ints. */

/* By device, written atomically. */
static struct {
	/* The pool that cuMemAllocAsync takes from; 0 for the default one. */
	uint64_t current[DEVICES_MAX];
	/* The number of the default one; 0 before it is known. */
	uint64_t default_pool[DEVICES_MAX];
} state;

CUresult pool_enter(uint64_t number, int device, int types, bool imported)
{
	struct pool *p = (struct pool *)handle_new(sizeof(*p), 0);

	if (p) {
		p->device = device;
		p->types = types;
		p->imported = imported;
	}
	return handle_enter(HANDLE_POOL, number, (struct handle *)p);
}

/* The number of a device's default pool. */
static CUresult default_pool(CUdevice dev, uint64_t *number)
{
	CUresult result;

	*number = __atomic_load_n(&state.default_pool[dev], __ATOMIC_ACQUIRE);
	if (*number)
		return CUDA_SUCCESS;
	result = call_PoolDefault(device_host(dev), number);
	if (!result && !handle_known(HANDLE_POOL, (void *)(uintptr_t)*number))
		result = pool_enter(*number, dev, 0, false);
	if (!result)
		__atomic_store_n(&state.default_pool[dev], *number, __ATOMIC_RELEASE);
	return result;
}

static CUresult current_pool(CUdevice dev, uint64_t *number)
{
	*number = __atomic_load_n(&state.current[dev], __ATOMIC_ACQUIRE);
	return *number ? CUDA_SUCCESS : default_pool(dev, number);
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	uint64_t number;
	CUresult result;

	ENTER();
	if (!pool_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	result = default_pool(dev, &number);
	if (!result)
		*pool_out = (CUmemoryPool)(uintptr_t)number;
	return result;
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	uint64_t number;
	CUresult result;

	ENTER();
	if (!pool || !device_valid(dev))
		return CUDA_ERROR_INVALID_VALUE;
	result = current_pool(dev, &number);
	if (!result)
		*pool = (CUmemoryPool)(uintptr_t)number;
	return result;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct pool *p;

	ENTER();
	p = pool_find(pool);
	if (!device_valid(dev) || !p || p->device != dev || p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	__atomic_store_n(&state.current[dev], number_of(pool), __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

/* Checks the location that a function names: only memory of devices is in pools here. */
static CUresult check_location(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return device_valid(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
				       CUmemAllocationType type)
{
	CUresult result;

	ENTER();
	result = check_location(location, type);
	return result ? result : cuDeviceGetDefaultMemPool(pool_out, location->id);
}

EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
				CUmemAllocationType type)
{
	CUresult result;

	ENTER();
	result = check_location(location, type);
	return result ? result : cuDeviceGetMemPool(pool, location->id);
}

EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
				CUmemoryPool pool)
{
	CUresult result;

	ENTER();
	result = check_location(location, type);
	return result ? result : cuDeviceSetMemPool(location->id, pool);
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	uint64_t number;
	CUresult result;

	ENTER();
	if (!pool || !poolProps)
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    poolProps->location.type <= CU_MEM_LOCATION_TYPE_INVALID ||
	    poolProps->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
	    poolProps->handleTypes & ~(HANDLE_TYPE_POSIX_FD | HANDLE_TYPE_FABRIC))
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!device_valid(poolProps->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->handleTypes & HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = call_cuMemPoolCreate(device_host(poolProps->location.id), poolProps->maxSize,
				      (uint64_t)poolProps->handleTypes, &number);
	if (!result)
		result = pool_enter(number, poolProps->location.id, poolProps->handleTypes, false);
	if (!result)
		*pool = (CUmemoryPool)(uintptr_t)number;
	return result;
}

static CUresult set_access(struct pool *p, int device, uint8_t access);

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *p;
	uint64_t number = number_of(pool);
	CUresult result;

	ENTER();
	p = pool_find(pool);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuMemPoolDestroy(number);
	if (result)
		return result;
	for (int i = 0; i < (int)devices.count; i++)
		set_access(p, i, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	__atomic_compare_exchange_n(&state.current[p->device], &number, 0, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	handle_forget(HANDLE_POOL, pool);
	return channel_error(true);
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	uint64_t word;
	CUresult result;

	ENTER();
	if (!value || !pool_find(pool) || !is_pool_attribute((uint64_t)attr))
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuMemPoolGetAttribute(number_of(pool), (uint64_t)attr, &word);
	if (!result)
		memcpy(value, &word,
		       attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? 4 : 8);
	return result;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	uint64_t word = 0;

	ENTER();
	if (!value || !pool_find(pool) || !is_pool_attribute((uint64_t)attr))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&word, value, attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? 4 : 8);
	return call_cuMemPoolSetAttribute(number_of(pool), (uint64_t)attr, word);
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	ENTER();
	if (!pool_find(pool))
		return CUDA_ERROR_INVALID_VALUE;
	return call_cuMemPoolTrimTo(number_of(pool), minBytesToKeep);
}

/* What cuMemPoolSetAccess may be asked for. */
static CUresult check_access(const struct pool *p, const CUmemAccessDesc *map)
{
	if (map->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    map->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!device_valid(map->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	if (map->location.id == p->device) /* its own device can't lose it */
		return map->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? CUDA_ERROR_INVALID_DEVICE :
		       map->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS :
									  CUDA_ERROR_INVALID_VALUE;
	if (!device_pair(map->location.id, p->device).access)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	return map->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
			       map->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_VALUE;
}

/* Gives another device access to the pool, or takes it back. The worker counts who asked for it. */
static CUresult set_access(struct pool *p, int device, uint8_t access)
{
	CUresult result;

	if (device == p->device ||
	    __atomic_exchange_n(&p->access[device], access, __ATOMIC_ACQ_REL) == access)
		return CUDA_SUCCESS;
	result = call_PoolAccess(device_host(device), device_host(p->device), access);
	if (result)
		__atomic_store_n(&p->access[device], 0, __ATOMIC_RELEASE);
	return result;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	CUresult result = CUDA_SUCCESS;
	struct pool *p;

	ENTER();
	p = pool_find(pool);
	if (!p || !map)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !result && i < count; i++)
		result = check_access(p, &map[i]);
	for (size_t i = 0; !result && i < count; i++)
		result = set_access(p, map[i].location.id, (uint8_t)map[i].flags);
	return result;
}

EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
				   CUmemLocation *location)
{
	const struct pool *p;

	ENTER();
	p = pool_find(memPool);
	if (!p || !flags || !location ||
	    (location->type != CU_MEM_LOCATION_TYPE_DEVICE &&
	     location->type != CU_MEM_LOCATION_TYPE_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && !device_valid(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		*flags = location->id == p->device ?
				 CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
				 (CUmemAccess_flags)__atomic_load_n(&p->access[location->id],
								    __ATOMIC_ACQUIRE);
	return CUDA_SUCCESS;
}

CUresult pool_enter_memory(uint64_t base, uint64_t bytes, int device, uint64_t pool)
{
	struct memory m = {
		.base = base,
		.bytes = bytes,
		.kind = MEMORY_DEVICE,
		.device = device,
		.context = context_owner(),
		.pool = pool,
	};

	if (!base || base + bytes < base)
		return CUDA_ERROR_UNKNOWN;
	return memory_enter(&m) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate(CUdeviceptr *dptr, size_t bytes, uint64_t pool, int device,
			 CUstream stream)
{
	bool captured = capture_of(stream);
	uint64_t base;
	CUresult result = call_cuMemAllocAsync(bytes, pool, number_of(stream), &base);

	if (!result)
		result = captured ? graph_memory_enter(base, bytes) :
				    pool_enter_memory(base, bytes, device, pool);
	if (!result && captured)
		graph_memory_note(capture_graph(stream));
	if (!result)
		*dptr = base;
	return result;
}

/* An allocation of 0 bytes in stream order gives no memory, and no error. */
static CUresult allocated_nothing(CUdeviceptr *dptr)
{
	*dptr = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	uint64_t pool;
	CUresult result;

	ENTER_CONTEXT();
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!bytesize)
		return allocated_nothing(dptr);
	result = current_pool(context_current()->device, &pool);
	return result ? result : allocate(dptr, bytesize, pool, context_current()->device, hStream);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
					CUstream hStream)
{
	const struct pool *p;

	ENTER_CONTEXT();
	p = pool_find(pool);
	if (!dptr || !p || p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!bytesize)
		return allocated_nothing(dptr);
	if (p->device != context_current()->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	return allocate(dptr, bytesize, number_of(pool), p->device, hStream);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct request r;
	struct memory m;

	ENTER_CONTEXT();
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!dptr)
		return CUDA_SUCCESS;
	if (!memory_take(dptr, MEMORY_DEVICE, &m))
		return memory_find(dptr, &m) && m.base == dptr && m.kind == MEMORY_MANAGED ?
			       CUDA_ERROR_NOT_SUPPORTED :
			       CUDA_ERROR_INVALID_VALUE;
	if (m.graph)
		graph_memory_note(capture_graph(hStream));
	request_cuMemFreeAsync(&r, dptr, number_of(hStream));
	/* Only the driver knows whether a graph's memory is allocated now. */
	return channel_synced(m.graph ? channel_call(&r, NULL, 0) : channel_post(&r));
}
