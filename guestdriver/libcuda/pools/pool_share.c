/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools, and their memory, between processes. A pool goes as a descriptor, memory as a name that the worker offers. */
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "pools/pool.h"
#include "sharing/share.h"

#define MAGIC 0x31504450565043u

/* What is in a CUmemPoolPtrExportData. */
struct content {
	uint64_t magic;
	uint64_t word[4];	/* the pool's token, name of the memory, offset in it */
	uint64_t bytes;
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct content) == sizeof(CUmemPoolPtrExportData), "CUmemPoolPtrExportData");

EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
						 CUmemAllocationHandleType handleType, unsigned long long flags)
{
	const struct pool *p;
	struct request r;
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
	request_init(&r, OP_cuMemPoolExportToShareableHandle);
	r.exact = true;
	request_word(&r, number_of(pool));
	result = channel_call(&r, &object, 1);
	return result ? result : share_export(object, handle_out);
}

static void destroy(uint64_t number)
{
	struct request r;

	request_init(&r, OP_cuMemPoolDestroy);
	r.exact = true;
	request_word(&r, number);
	channel_call(&r, NULL, 0);
}

EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						   CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct request r;
	uint64_t object, word[2];
	CUdevice device;
	CUresult result;

	ENTER();
	if (!pool_out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = share_type(handleType);
	if (!result)
		result = share_import(handle, &object);
	if (result)
		return result;
	request_init(&r, OP_cuMemPoolImportFromShareableHandle);
	r.exact = true;
	request_word(&r, object);
	result = channel_call(&r, word, 2);
	if (result)
		return result;
	device = share_device(word[1]);
	result = device < 0 ? CUDA_ERROR_INVALID_DEVICE : pool_enter(word[0], device, handleType, true);
	if (result)
		destroy(word[0]);
	else
		*pool_out = (CUmemoryPool)(uintptr_t)word[0];
	return result;
}

EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct content c = { .magic = MAGIC };
	const struct pool *p;
	struct request r;
	struct memory m;
	CUresult result;

	ENTER();
	if (!shareData_out || !memory_find(ptr, &m) || m.base != ptr || !m.pool)
		return CUDA_ERROR_INVALID_VALUE;
	p = pool_find((CUmemoryPool)(uintptr_t)m.pool);
	if (!p || !p->types || p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	request_init(&r, OP_cuMemPoolExportPointer);
	r.exact = true;
	request_word(&r, ptr);
	result = channel_call(&r, c.word, 4);
	c.bytes = m.bytes;
	if (!result)
		memcpy(shareData_out, &c, sizeof(c));
	return result;
}

static void drop(uint64_t address)
{
	call_cuMemFree_v2(address);
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	const struct pool *p;
	struct content c;
	struct request r;
	uint64_t address;
	CUresult result;

	ENTER_CONTEXT();
	p = pool_find(pool);
	if (!ptr_out || !shareData || !p || !p->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&c, shareData, sizeof(c));
	if (c.magic != MAGIC || !c.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	request_init(&r, OP_cuMemPoolImportPointer);
	r.exact = true;
	request_word(&r, number_of(pool));
	for (unsigned i = 0; i < 4; i++)
		request_word(&r, c.word[i]);
	result = channel_call(&r, &address, 1);
	if (result)
		return result;
	result = pool_enter_memory(address, c.bytes, p->device, number_of(pool));
	if (result)
		drop(address);
	else
		*ptr_out = address;
	return result;
}
