/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of memory at reserved addresses. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "mapping/vmm.h"

static void set_pages(struct vmm_reservation *r, uint64_t base, uint64_t bytes,
		      struct vmm_mapping *m)
{
	for (uint64_t i = (base - r->base) / VMM_PAGE; bytes; bytes -= VMM_PAGE)
		r->page[i++] = m;
}

/* For copies neighbouring mappings are one range: a copy may span them. */
static bool enter(const struct vmm_reservation *r, const struct vmm_mapping *mapping)
{
	uint64_t base = mapping->base, end = base + mapping->bytes;
	struct memory side,
		m = { .kind = MEMORY_MAPPED, .device = mapping->memory->prop.location.id };

	if (base > r->base && memory_find(base - 1, &side) && side.kind == MEMORY_MAPPED)
		base = side.base;
	if (end < r->base + r->bytes && memory_find(end, &side) && side.kind == MEMORY_MAPPED)
		end = side.base + side.bytes;
	m.base = base;
	m.bytes = end - base;
	return memory_enter(&m);
}

static CUresult map(struct vmm_reservation *r, struct vmm_mapping *m)
{
	CUresult result;

	for (uint64_t i = 0; i < m->bytes / VMM_PAGE; i++)
		if (r->page[(m->base - r->base) / VMM_PAGE + i])
			return CUDA_ERROR_INVALID_VALUE;
	result = call_cuMemMap(m->base, m->bytes, m->memory->number);
	if (result)
		return result;
	if (!enter(r, m)) {
		call_cuMemUnmap(m->base, m->bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	set_pages(r, m->base, m->bytes, m);
	m->memory->mappings++;
	r->mappings++;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
			 CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct vmm_mapping *m;
	struct vmm_reservation *r;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	ENTER();
	if (!size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->base = ptr;
	m->bytes = size;
	pthread_mutex_lock(&vmm_lock);
	m->memory = (struct vmm_memory *)handle_find(HANDLE_MEMORY, (void *)(uintptr_t)handle);
	r = vmm_reserved(ptr, size);
	if (r && m->memory && m->memory->references && !m->memory->tiles) {
		/* As with driver 580: a part of memory can't be mapped. */
		result = CUDA_ERROR_NOT_SUPPORTED;
		if (!offset && m->memory->bytes == size)
			result = ptr % VMM_PAGE ? CUDA_ERROR_INVALID_VALUE : map(r, m);
	}
	pthread_mutex_unlock(&vmm_lock);
	if (result)
		free(m);
	return result;
}

static CUresult unmap(uint64_t base, uint64_t bytes)
{
	struct vmm_reservation *r = vmm_reserved(base, bytes);
	CUresult result;

	if (!r || !vmm_whole(base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuMemUnmap(base, bytes);
	if (result)
		return result;
	memory_cut(base, bytes);
	while (bytes) {
		struct vmm_mapping *m = vmm_mapped(base);

		base += m->bytes;
		bytes -= m->bytes;
		set_pages(r, m->base, m->bytes, NULL);
		r->mappings--;
		m->memory->mappings--;
		vmm_drop(m->memory);
		free(m);
	}
	return channel_error(true);
}

EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult result;

	ENTER();
	pthread_mutex_lock(&vmm_lock);
	result = unmap(ptr, size);
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

static CUresult set_access(uint64_t base, uint64_t bytes, const CUmemAccessDesc *desc)
{
	CUresult result = call_cuMemSetAccess(base, bytes, device_host(desc->location.id),
					      (uint64_t)desc->flags);

	for (uint64_t at = base; !result && at < base + bytes;) {
		struct vmm_mapping *m = vmm_mapped(at);

		m->access[desc->location.id] = (uint8_t)desc->flags;
		at += m->bytes;
	}
	return channel_synced(result);
}

static bool is_whole(uint64_t base, uint64_t bytes)
{
	bool whole;

	pthread_mutex_lock(&vmm_lock);
	whole = vmm_whole(base, bytes);
	pthread_mutex_unlock(&vmm_lock);
	return whole;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
			       size_t count)
{
	CUresult result = CUDA_SUCCESS;

	ENTER();
	if (!desc || !count || !is_whole(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (!device_valid(desc[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		if (!is_access((uint64_t)desc[i].flags))
			return CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_lock(&vmm_lock);
	if (!vmm_whole(ptr, size))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !result && i < count; i++)
		result = set_access(ptr, size, &desc[i]);
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

void vmm_narrow(struct memory *m, uint64_t address)
{
	const struct vmm_mapping *mapping;

	if (m->kind != MEMORY_MAPPED)
		return;
	pthread_mutex_lock(&vmm_lock);
	mapping = vmm_mapped(address);
	if (mapping) {
		m->base = mapping->base;
		m->bytes = mapping->bytes;
	}
	pthread_mutex_unlock(&vmm_lock);
}

bool vmm_range(uint64_t address, uint64_t *base, uint64_t *bytes)
{
	const struct vmm_reservation *r;

	pthread_mutex_lock(&vmm_lock);
	r = vmm_reserved(address, 1);
	if (r) {
		*base = r->base;
		*bytes = r->bytes;
	}
	pthread_mutex_unlock(&vmm_lock);
	return r != NULL;
}

int vmm_access(uint64_t address, int device)
{
	const struct vmm_mapping *m;
	int access = -1;

	pthread_mutex_lock(&vmm_lock);
	m = vmm_mapped(address);
	if (m)
		access = m->access[device];
	pthread_mutex_unlock(&vmm_lock);
	return access;
}

/* For memory that isn't mapped the answer is that nothing was set. */
EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			       CUdeviceptr ptr)
{
	struct memory m;

	ENTER();
	if (!flags || !location || !ptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE &&
	    location->type != CU_MEM_LOCATION_TYPE_HOST)
		return CUDA_ERROR_INVALID_DEVICE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && !device_valid(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!memory_find(ptr, &m))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = m.kind != MEMORY_MAPPED ?
			 CU_MEM_ACCESS_FLAGS_PROT_NONE :
			 (unsigned long long)vmm_access(
				 ptr, location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id :
										      m.device);
	return CUDA_SUCCESS;
}
