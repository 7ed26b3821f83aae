/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for memory that the device can reach: where they lie, and when they are free of work. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/page.h"
#include "context/zz_generated_commands.h"
#include "hostmemory/host_memory.h"
#include "hostmemory/pins.h"
#include "streams/capture.h"
#include "transport/transport.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Huge pages keep the lists of runs short. */
#define HUGE_PAGE ((uint64_t)2 << 20)

/*
 * Where allocations go, if the place is free: addresses that the worker is unlikely to use itself.
 */
#define REGION_BASE 0x600000000000u
#define REGION_END 0x6f0000000000u

uint64_t host_memory_next = REGION_BASE;

static void *reserve(uint64_t bytes)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint64_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 65536;
	uint64_t room = (bytes + align - 1) & ~(align - 1);
	uint64_t at = __atomic_fetch_add(
		&host_memory_next, (room + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), __ATOMIC_RELAXED);
	void *p = MAP_FAILED;

	if (at + room < REGION_END)
		p = mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE,
			 flags | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != MAP_FAILED && p != (void *)(uintptr_t)at) {
		munmap(p, bytes);
		p = MAP_FAILED;
	}
	if (p == MAP_FAILED)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* Maps memory in long runs there. If that fails, ordinary pages fill the hole that it leaves. */
static bool fill(void *p, uint64_t bytes)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	if (!transport->host_memory(p, bytes))
		return true;
	if (mmap(p, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
		return false;
	if (bytes >= HUGE_PAGE)
		madvise(p, bytes, MADV_HUGEPAGE);
	return true;
}

CUresult host_memory_make_alone(struct memory *m)
{
	CUresult result;

	if (m->bytes > REGION_END - REGION_BASE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->pinned_bytes = page_end(m->bytes);
	m->base = m->pinned_base = (uint64_t)(uintptr_t)reserve(m->pinned_bytes);
	if (!m->base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = fill((void *)(uintptr_t)m->base, m->pinned_bytes) ? pins_make(m) :
								     CUDA_ERROR_OUT_OF_MEMORY;
	if (result)
		munmap((void *)(uintptr_t)m->base, m->pinned_bytes);
	return result;
}

CUresult host_memory_end_alone(struct memory *m)
{
	CUresult result = pins_end(m);

	munmap((void *)(uintptr_t)m->base, m->pinned_bytes);
	return result;
}

/* During captures, waiting for everything is forbidden. */
static CUresult synchronize(const struct context *c, bool *waited)
{
	struct request r;

	if (capture_active())
		*waited = false;
	if (!c || !context_alive(c) || !*waited)
		return CUDA_SUCCESS;
	request_cuCtxSynchronize(&r);
	r.context = __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE);
	return channel_call(&r, NULL, 0);
}

CUresult host_memory_settle(const struct memory *m, bool *waited)
{
	const struct context *current = context_current();
	CUresult result, second;

	*waited = true;
	result = synchronize(m->context, waited);
	second = current == m->context ? CUDA_SUCCESS : synchronize(current, waited);
	return result ? result : second;
}
