/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools, and their memory, between processes. A pool is passed on as a descriptor, memory as
 * a name under which the worker offers it.
 */
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "pools/pool.h"
#include "sharing/share.h"

#define MAGIC 0x31504450565043u

/* What is in a CUmemPoolPtrExportData. */
struct content {
	uint64_t magic;
	struct answer_cuMemPoolExportPointer memory;
	uint64_t bytes;
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct content) == sizeof(CUmemPoolPtrExportData), "CUmemPoolPtrExportData");

EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
						 CUmemAllocationHandleType handleType,
						 unsigned long long flags)
{
	const struct pool *p;
	uint64_t object;
	CUresult result;

	ENTER();
	p = pool_find(pool);
	if (!handle_out || !p || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = share_type(handleType);
	if (result)
		return result;
	if (!(p->types & handleType) || p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuMemPoolExportToShareableHandle(number_of(pool), &object);
	return result ? result : share_export(object, handle_out);
}

EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						   CUmemAllocationHandleType handleType,
						   unsigned long long flags)
{
	uint64_t object, number, host_device;
	CUresult result;

	ENTER();
	if (!pool_out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = share_type(handleType);
	if (!result)
		result = share_import(handle, &object);
	if (result)
		return result;
	result = call_cuMemPoolImportFromShareableHandle(object, &number, &host_device);
	if (result)
		return result;
	result = pool_enter(number, share_device(host_device), handleType, true);
	if (result)
		call_cuMemPoolDestroy(number);
	else
		*pool_out = (CUmemoryPool)(uintptr_t)number;
	return result;
}

EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct content c = { .magic = MAGIC };
	const struct pool *p;
	struct memory m;
	CUresult result;

	ENTER();
	if (!shareData_out || !memory_find(ptr, &m) || m.base != ptr || !m.pool)
		return CUDA_ERROR_INVALID_VALUE;
	p = pool_find((CUmemoryPool)(uintptr_t)m.pool);
	if (!p || !p->types || p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuMemPoolExportPointer(ptr, &c.memory);
	c.bytes = m.bytes;
	if (!result)
		memcpy(shareData_out, &c, sizeof(c));
	return result;
}

static void drop(uint64_t address)
{
	call_cuMemFree_v2(address);
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
				       CUmemPoolPtrExportData *shareData)
{
	const struct pool *p;
	struct args_cuMemPoolImportPointer args = { .pool = number_of(pool) };
	struct content c;
	uint64_t address;
	CUresult result;

	ENTER_CONTEXT();
	p = pool_find(pool);
	if (!ptr_out || !shareData || !p || !p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&c, shareData, sizeof(c));
	if (c.magic != MAGIC || !c.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	args.token = c.memory.token;
	memcpy(args.name, c.memory.name, sizeof(args.name));
	args.offset = c.memory.offset;
	result = call_cuMemPoolImportPointer(&args, &address);
	if (result)
		return result;
	result = pool_enter_memory(address, c.bytes, p->device, number_of(pool));
	if (result)
		drop(address);
	else
		*ptr_out = address;
	return result;
}
