/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about pointers, all answered here. */
#define _GNU_SOURCE
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "mapping/vmm.h"

/* The size of an attribute's value; 0: there is no such attribute. */
static size_t size_of(int attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return 4; /* these are booleans */
	default:
		return 0;
	}
}

/* Whether a device may use the address. */
static bool is_accessible(const struct memory *m, uint64_t pointer)
{
	return m->kind != MEMORY_MAPPED ||
	       vmm_access(pointer, m->device) > CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/* The value for a known range; 0 for what it doesn't have. */
static uint64_t value_of(int attribute, uint64_t pointer, const struct memory *m)
{
	struct memory one = *m;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return m->pool ? 0 : (uint64_t)(uintptr_t)m->context;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return memory_by_address(m) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return is_accessible(m, pointer) ? pointer : 0;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return memory_synced(m);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return memory_on_device(m) ? 0 : pointer;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return m->kind == MEMORY_MANAGED;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return m->id;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint64_t)m->device;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		vmm_range(pointer, &one.base, &one.bytes);
		return one.base;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		vmm_range(pointer, &one.base, &one.bytes);
		return one.bytes;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		vmm_narrow(&one, pointer);
		return memory_pinned(m) ? m->pinned_base : one.base;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		vmm_narrow(&one, pointer);
		return memory_pinned(m) ? m->pinned_bytes : one.bytes;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return 1;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return m->kind == MEMORY_MAPPED ? (uint64_t)vmm_access(pointer, m->device) :
						  CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return m->pool;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return m->kind == MEMORY_MAPPED ? vmm_handle_types(pointer) : 0;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return m->kind == MEMORY_DEVICE && !m->pool;
	default:
		return 0;
	}
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct memory m;
	uint64_t value;

	ENTER();
	if (!data || attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!size_of(attribute))
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!memory_find(ptr, &m))
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && memory_on_device(&m))
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && !is_accessible(&m, ptr))
		return CUDA_ERROR_INVALID_VALUE;
	value = value_of(attribute, ptr, &m);
	memcpy(data, &value, size_of(attribute));
	return CUDA_SUCCESS;
}

/*
 * The value for memory that CUDA doesn't know: CU_DEVICE_INVALID, that the host may use the
 * pointer, and the range if it is reserved.
 */
static bool value_of_unknown(int attribute, uint64_t pointer, uint64_t *value)
{
	uint64_t base, bytes;

	*value = 0;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = (uint64_t)-2;
		return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*value = pointer;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		if (!vmm_range(pointer, &base, &bytes))
			return false;
		*value = attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ? base : bytes;
		return true;
	default:
		return true;
	}
}

EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				       void **data, CUdeviceptr ptr)
{
	struct memory m;
	bool known;

	ENTER();
	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	known = memory_find(ptr, &m);
	for (unsigned i = 0; i < numAttributes; i++) {
		uint64_t value;

		if (!size_of(attributes[i]) || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (known)
			value = value_of(attributes[i], ptr, &m);
		else if (!value_of_unknown(attributes[i], ptr, &value))
			continue;
		memcpy(data[i], &value, size_of(attributes[i]));
	}
	return CUDA_SUCCESS;
}

/* Copies here never return too early: the attribute is only remembered. */
EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				      CUdeviceptr ptr)
{
	unsigned int synced;
	struct memory m;

	ENTER_CONTEXT();
	if (!value || attribute <= 0 || !memory_find(ptr, &m))
		return CUDA_ERROR_INVALID_VALUE;
	if (m.kind == MEMORY_MAPPED) /* whatever the attribute, known or not */
		return CUDA_ERROR_NOT_SUPPORTED;
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&synced, value, sizeof(synced));
	memory_sync(ptr, synced);
	return CUDA_SUCCESS;
}
