/* SPDX-License-Identifier: Apache-2.0 */
/* Memory without addresses, between processes. */
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "mapping/vmm.h"
#include "sharing/share.h"

/* Whether a handle is of memory that was made to be exported like this. */
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

EXPORT CUresult cuMemExportToShareableHandle(void *shareableHandle,
					     CUmemGenericAllocationHandle handle,
					     CUmemAllocationHandleType handleType,
					     unsigned long long flags)
{
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
	result = call_cuMemExportToShareableHandle(handle, &object);
	return result ? result : share_export(object, shareableHandle);
}

/* Enters what the worker has imported. */
static CUresult enter(const struct answer_cuMemImportFromShareableHandle *imported)
{
	struct vmm_memory *m = (struct vmm_memory *)handle_new(sizeof(*m), 0);

	if (m) {
		m->number = imported->memory;
		m->bytes = imported->bytes;
		m->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
		m->prop.requestedHandleTypes =
			0; /* it can't be exported again, as with driver 580 */
		m->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		m->prop.location.id = share_device(imported->device);
		m->references = 1;
	}
	return handle_enter(HANDLE_MEMORY, imported->memory, (struct handle *)m);
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					       CUmemAllocationHandleType shHandleType)
{
	struct answer_cuMemImportFromShareableHandle imported;
	uint64_t object;
	CUresult result;

	ENTER();
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	result = share_type(shHandleType);
	if (!result)
		result = share_import(osHandle, &object);
	if (result)
		return result;
	result = call_cuMemImportFromShareableHandle(object, &imported);
	if (result)
		return result;
	result = enter(&imported);
	if (result)
		call_cuMemRelease(imported.memory);
	else
		*handle = imported.memory;
	return result;
}
