/* SPDX-License-Identifier: Apache-2.0 */
/* Memory without addresses. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "mapping/vmm.h"
#include "sharing/share.h"

struct vmm_memory *vmm_memory(CUmemGenericAllocationHandle handle)
{
	struct vmm_memory *m =
		(struct vmm_memory *)handle_find(HANDLE_MEMORY, (void *)(uintptr_t)handle);

	return m && m->references ? m : NULL;
}

/*
 * Which memory can be asked for: a device's own, whether or not it can be exported as a descriptor.
 */
static CUresult check(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->location.type <= CU_MEM_LOCATION_TYPE_INVALID ||
	    prop->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!device_valid(prop->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	if (prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC ||
	    prop->requestedHandleTypes & (HANDLE_TYPE_WIN32 | HANDLE_TYPE_WIN32_KMT))
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL &&
	    (prop->allocFlags.compressionType || prop->requestedHandleTypes))
		return CUDA_ERROR_INVALID_VALUE; /* tiles can be neither exported nor compressed */
	return prop->requestedHandleTypes & HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_PERMITTED :
								 CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					      CUmemAllocationGranularity_flags option)
{
	ENTER();
	if (!granularity || !prop || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = VMM_PAGE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			    const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct vmm_memory *m;
	uint8_t compression;
	uint64_t number;
	CUresult result;

	ENTER();
	if (!handle || !size || size % VMM_PAGE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = check(prop);
	if (result)
		return result;
	/* As with driver 580: memory that other devices may reach isn't compressed. */
	compression =
		prop->allocFlags.gpuDirectRDMACapable ||
				!device_number(prop->location.id,
					       CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED) ?
			0 :
			prop->allocFlags.compressionType;
	result = call_cuMemCreate(size, device_host(prop->location.id), compression, &number);
	if (result)
		return result;
	m = (struct vmm_memory *)handle_new(sizeof(*m), 0);
	if (m) {
		m->number = number;
		m->bytes = size;
		m->prop = *prop;
		m->prop.win32HandleMetaData = NULL;
		m->prop.requestedHandleTypes &= HANDLE_TYPES_KNOWN;
		m->prop.allocFlags.compressionType = compression;
		m->prop.allocFlags.usage = 0; /* as driver 580 tells it */
		m->tiles = prop->allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL;
		m->references = 1;
	}
	result = handle_enter(HANDLE_MEMORY, number, (struct handle *)m);
	if (!result)
		*handle = number;
	return result;
}

CUresult vmm_drop(struct vmm_memory *m)
{
	uint64_t number = m->number;

	if (m->references || m->mappings)
		return CUDA_SUCCESS;
	handle_forget(HANDLE_MEMORY, (void *)(uintptr_t)number);
	return call_cuMemRelease(number);
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

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						       CUmemGenericAllocationHandle handle)
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
