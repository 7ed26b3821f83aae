/* SPDX-License-Identifier: Apache-2.0 */
/* Memory without addresses. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "share.h"
#include "vmm.h"
#include "zz_generated_calls.h"
#include "zz_generated_prototypes.h"

struct vmm_memory *vmm_memory(CUmemGenericAllocationHandle handle)
{
	struct vmm_memory *m = (struct vmm_memory *)handle_find(HANDLE_MEMORY, (void *)(uintptr_t)handle);

	return m && m->references ? m : NULL;
}

/* What memory can be asked for: a device's own, to be exported as a descriptor or not. */
static CUresult check(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != ALLOCATION_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes & ~HANDLE_TYPE_POSIX_FD || prop->location.type != LOCATION_DEVICE || prop->usage)
		return CUDA_ERROR_NOT_SUPPORTED;
	return device_valid(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					      CUmemAllocationGranularity_flags option)
{
	CUresult result;

	ENTER();
	if (!granularity || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	result = check(prop);
	if (!result)
		*granularity = VMM_PAGE;
	return result;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
			    unsigned long long flags)
{
	struct vmm_memory *m;
	struct request r;
	uint64_t number;
	CUresult result;

	ENTER();
	if (!handle || !size || size % VMM_PAGE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = check(prop);
	if (result)
		return result;
	request_init(&r, OP_cuMemCreate);
	r.exact = true;
	request_word(&r, size);
	request_word(&r, device_host(prop->location.id));
	result = channel_call(&r, &number, 1);
	if (result)
		return result;
	m = (struct vmm_memory *)handle_new(sizeof(*m), 0);
	if (m) {
		m->number = number;
		m->bytes = size;
		m->prop = *prop;
		m->prop.win32HandleMetaData = NULL;
		m->references = 1;
	}
	result = handle_enter(HANDLE_MEMORY, number, (struct handle *)m);
	if (!result)
		*handle = number;
	return result;
}

CUresult vmm_drop(struct vmm_memory *m)
{
	struct request r;

	if (m->references || m->mappings)
		return CUDA_SUCCESS;
	request_init(&r, OP_cuMemRelease);
	r.exact = true;
	request_word(&r, m->number);
	handle_forget(HANDLE_MEMORY, (void *)(uintptr_t)m->number);
	return channel_call(&r, NULL, 0);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct vmm_memory *m;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	ENTER();
	pthread_mutex_lock(&vmm_lock);
	m = vmm_memory(handle);
	if (m) {
		m->references--;
		result = vmm_drop(m);
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct vmm_mapping *mapping;

	ENTER();
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	mapping = vmm_mapped(number_of(addr));
	if (mapping) {
		mapping->memory->references++;
		*handle = mapping->memory->number;
	}
	pthread_mutex_unlock(&vmm_lock);
	return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	struct vmm_memory *m;

	ENTER();
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	m = vmm_memory(handle);
	if (m)
		*prop = m->prop;
	pthread_mutex_unlock(&vmm_lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
