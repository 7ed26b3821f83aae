/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "managed/managed.h"

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "devices/device.h"
#include "hostmemory/host_memory.h"
#include "streams/capture.h"
#include "streams/stream.h"

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct memory m = { .bytes = bytesize, .kind = MEMORY_MANAGED, .flags = flags };
	CUresult result;

	ENTER_CONTEXT();
	ENTER_SAFE();
	if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	m.context = context_owner();
	m.device = m.context->device;
	if (!device_number(m.device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = host_memory_make(&m);
	if (!result)
		*dptr = m.base;
	return result;
}

bool managed_find(uint64_t address, uint64_t bytes, struct memory *m)
{
	return bytes && memory_find(address, m) && m->kind == MEMORY_MANAGED &&
	       bytes <= m->bytes - (address - m->base);
}

/* Frees memory that was taken out of the memory map. */
static CUresult end(struct memory *m)
{
	bool waited;
	CUresult result = host_memory_settle(m, &waited), second = host_memory_end(m, waited);

	return result ? result : second;
}

CUresult managed_free(CUdeviceptr dptr)
{
	struct memory m;

	if (!memory_find(dptr, &m) || m.variables || !memory_take(dptr, MEMORY_MANAGED, &m))
		return CUDA_ERROR_INVALID_VALUE;
	return end(&m);
}

CUresult managed_variables_make(uint64_t bytes, struct context *c, uint64_t *base)
{
	struct memory m = { .bytes = bytes,
			    .kind = MEMORY_MANAGED,
			    .flags = CU_MEM_ATTACH_GLOBAL,
			    .variables = true,
			    .context = c };
	CUresult result;

	m.device = c ? c->device : 0;
	result = host_memory_make(&m);
	*base = m.base;
	return result;
}

void managed_variables_end(uint64_t base)
{
	struct memory m;

	if (base && memory_take(base, MEMORY_MANAGED, &m))
		end(&m);
}

/*
 * Attaching matters for devices that can't use memory at the same time as the host: here all can.
 */
EXPORT CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
				       unsigned int flags)
{
	struct memory m;
	CUresult result;

	ENTER_CONTEXT();
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_question(hStream);
	if (result)
		return result;
	ENTER_SAFE();
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	    flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!managed_find(dptr, 1, &m) || (length && (dptr != m.base || length != m.bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_MEM_ATTACH_SINGLE &&
	    !hStream) /* the legacy stream is accepted by its other name */
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
