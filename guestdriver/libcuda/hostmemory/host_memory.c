/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the device can reach: pages of this process, pinned for as long as they are
 * allocated or registered.
 */
#define _GNU_SOURCE
#include "hostmemory/host_memory.h"

#include "base/page.h"
#include "base/zz_generated_prototypes.h"
#include "context/context.h"
#include "hostmemory/advice.h"
#include "hostmemory/pins.h"
#include "hostmemory/slab.h"
#include "streams/capture.h"
#include "transport/channel.h"

static struct {
	/* Held while memory is registered or unregistered: neighbours may have pages in common. */
	pthread_mutex_t registering;
} state = { PTHREAD_MUTEX_INITIALIZER };

/* Frees memory of this process that was made here. */
static CUresult end_made(struct memory *m, bool waited)
{
	slab_uncount(m);
	return m->slab ? slab_give(m, waited) : host_memory_end_alone(m);
}

CUresult host_memory_make(struct memory *m)
{
	CUresult result = slab_wanted(m) ? slab_take(m) : CUDA_ERROR_OUT_OF_MEMORY;

	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		result = host_memory_make_alone(m);
	if (result) {
		slab_uncount(m);
		return result;
	}
	if (memory_enter(m))
		return CUDA_SUCCESS;
	end_made(m, true);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult host_memory_end(struct memory *m, bool waited)
{
	if (m->kind == MEMORY_MANAGED)
		advice_forget(m->base, m->bytes);
	return m->kind == MEMORY_REGISTERED ? pins_end(m) : end_made(m, waited);
}

void host_memory_forget_context(const struct context *c)
{
	const struct memory any = { .context = (struct context *)c };
	struct memory m;
	bool waited;

	slab_close(c);
	if (!memory_has_pinned(c))
		return;
	host_memory_settle(&any, &waited);
	pthread_mutex_lock(&state.registering);
	while (memory_take_pinned(c, &m))
		host_memory_end(&m, waited);
	pthread_mutex_unlock(&state.registering);
}

EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct context *c;
	struct memory m;
	CUresult result;

	ENTER_CONTEXT();
	ENTER_SAFE();
	if (!pp || Flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
			     CU_MEMHOSTALLOC_WRITECOMBINED))
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytesize) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	c = context_owner();
	m = (struct memory){ .bytes = bytesize,
			     .kind = MEMORY_HOST,
			     .device = c->device,
			     .flags = Flags,
			     .context = c };
	result = host_memory_make(&m);
	if (!result)
		*pp = (void *)(uintptr_t)m.base;
	return result;
}

EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

/*
 * Gives back the memory of that kind that begins at an address, once the work that may use it is
 * done.
 */
static CUresult give_back(uint64_t base, enum memory_kind kind, CUresult unknown)
{
	CUresult result, second = CUDA_SUCCESS;
	bool taken, waited;
	struct memory m;

	if (memory_kind_at(base, &m) != kind || m.base != base)
		return unknown;
	result = host_memory_settle(&m, &waited);
	if (kind == MEMORY_REGISTERED)
		pthread_mutex_lock(&state.registering);
	taken = memory_take(base, kind, &m);
	if (taken)
		second = host_memory_end(&m, waited);
	if (kind == MEMORY_REGISTERED)
		pthread_mutex_unlock(&state.registering);
	if (!taken) /* another thread was first */
		return unknown;
	return channel_synced(result ? result : second);
}

EXPORT CUresult cuMemFreeHost(void *p)
{
	ENTER_CONTEXT();
	ENTER_SAFE();
	return p ? give_back((uint64_t)(uintptr_t)p, MEMORY_HOST, CUDA_ERROR_INVALID_VALUE) :
		   CUDA_SUCCESS;
}

static CUresult enter_registered(struct memory *m)
{
	CUresult result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;

	pthread_mutex_lock(&state.registering);
	if (!memory_overlaps(m->base, m->bytes))
		result = pins_make(m);
	if (!result && !memory_enter(m)) {
		pins_end(m);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&state.registering);
	return result;
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	uint64_t base = (uint64_t)(uintptr_t)p, page = page_bytes(), end;
	struct context *c;
	struct memory m;

	ENTER_CONTEXT();
	ENTER_SAFE();
	/* Memory of a device (CU_MEMHOSTREGISTER_IOMEMORY) doesn't exist in the guest. */
	if (!p || !bytesize ||
	    Flags & ~(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
		      CU_MEMHOSTREGISTER_READ_ONLY) ||
	    __builtin_add_overflow(base, bytesize + page - 1, &end))
		return CUDA_ERROR_INVALID_VALUE;
	c = context_owner();
	m = (struct memory){
		.base = base,
		.bytes = bytesize,
		.kind = MEMORY_REGISTERED,
		.device = c->device,
		.flags = Flags,
		.context = c,
		.pinned_base = page_begin(base),
	};
	m.pinned_bytes = page_begin(end) - m.pinned_base;
	return enter_registered(&m);
}

EXPORT CUresult cuMemHostUnregister(void *p)
{
	uint64_t base = (uint64_t)(uintptr_t)p;
	struct memory m;

	ENTER_CONTEXT();
	ENTER_SAFE();
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	return give_back(base, MEMORY_REGISTERED,
			 memory_find(base, &m) ? CUDA_ERROR_INVALID_VALUE :
						 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* Pinned pages are mapped for the device at their own address. */
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct memory m;

	ENTER_CONTEXT();
	if (!pdptr || Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!memory_find((uint64_t)(uintptr_t)p, &m) || !memory_on_host(&m))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (uint64_t)(uintptr_t)p;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct memory m;

	ENTER_CONTEXT();
	if (!pFlags || !memory_find((uint64_t)(uintptr_t)p, &m) || !memory_pinned(&m))
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = CU_MEMHOSTALLOC_DEVICEMAP | (m.kind == MEMORY_MANAGED ? 0 : m.flags);
	return CUDA_SUCCESS;
}
