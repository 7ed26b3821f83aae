/* SPDX-License-Identifier: Apache-2.0 */
/* Memory without addresses, between processes. */
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "mapping/vmm.h"
#include "sharing/share.h"

/* Whether a handle is of memory that was made to be exported so. */
static bool exportable(CUmemGenericAllocationHandle handle, int type)
{
	const struct vmm_memory *m;
	bool ok;

	pthread_mutex_lock(&vmm_lock);
	m = vmm_memory(handle);
	ok = m && m->prop.requestedHandleTypes & type;
	pthread_mutex_unlock(&vmm_lock);
	return ok;
}

uint64_t vmm_handle_types(uint64_t address)
{
	const struct vmm_mapping *m;
	uint64_t types;

	pthread_mutex_lock(&vmm_lock);
	m = vmm_mapped(address);
	types = m ? (uint64_t)m->memory->prop.requestedHandleTypes : 0;
	pthread_mutex_unlock(&vmm_lock);
	return types;
}

EXPORT CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
					     CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct request r;
	uint64_t object;
	CUresult result;

	ENTER();
	if (!shareableHandle || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!exportable(handle, handleType))
		return CUDA_ERROR_INVALID_VALUE;
	result = share_type(handleType);
	if (result)
		return result;
	request_init(&r, OP_cuMemExportToShareableHandle);
	r.exact = true;
	request_word(&r, handle);
	result = channel_call(&r, &object, 1);
	return result ? result : share_export(object, shareableHandle);
}

static CUresult release(uint64_t number)
{
	struct request r;

	request_init(&r, OP_cuMemRelease);
	r.exact = true;
	request_word(&r, number);
	return channel_call(&r, NULL, 0);
}

/* Enters what the worker has imported: handle, size, device. */
static CUresult enter(const uint64_t word[3])
{
	CUdevice device = share_device(word[2]);
	struct vmm_memory *m;

	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	m = (struct vmm_memory *)handle_new(sizeof(*m), 0);
	if (m) {
		m->number = word[0];
		m->bytes = word[1];
		m->prop.type = ALLOCATION_PINNED;
		m->prop.requestedHandleTypes = 0;	/* it can't be exported again: so with driver 580 */
		m->prop.location.type = LOCATION_DEVICE;
		m->prop.location.id = device;
		m->references = 1;
	}
	return handle_enter(HANDLE_MEMORY, word[0], (struct handle *)m);
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					       CUmemAllocationHandleType shHandleType)
{
	struct request r;
	uint64_t object, word[3];
	CUresult result;

	ENTER();
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	result = share_type(shHandleType);
	if (!result)
		result = share_import(osHandle, &object);
	if (result)
		return result;
	request_init(&r, OP_cuMemImportFromShareableHandle);
	r.exact = true;
	request_word(&r, object);
	result = channel_call(&r, word, 3);
	if (result)
		return result;
	result = enter(word);
	if (result)
		release(word[0]);
	else
		*handle = word[0];
	return result;
}
