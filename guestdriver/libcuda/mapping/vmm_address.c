/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations of addresses: set aside here and on the worker's side, so that a pointer means the
 * same on both.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "mapping/vmm.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* How far to go on if something is in the way, and how often. */
#define STEP ((uint64_t)1 << 34)
#define TRIES 256

/* The host's driver takes exactly the address asked for only if it is a multiple of this. */
#define ALIGN ((uint64_t)32 << 20)
#define ALIGN_LARGE ((uint64_t)1 << 30)

pthread_mutex_t vmm_lock = PTHREAD_MUTEX_INITIALIZER;
/* Under vmm_lock. */
static struct {
	struct vmm_reservation *first;
} state;

struct vmm_reservation *vmm_reserved(uint64_t base, uint64_t bytes)
{
	for (struct vmm_reservation *r = state.first; r; r = r->next)
		if (base - r->base < r->bytes)
			return bytes <= r->bytes - (base - r->base) ? r : NULL;
	return NULL;
}

struct vmm_mapping *vmm_mapped(uint64_t address)
{
	struct vmm_reservation *r = vmm_reserved(address, 1);

	return r ? r->page[(address - r->base) / VMM_PAGE] : NULL;
}

bool vmm_whole(uint64_t base, uint64_t bytes)
{
	uint64_t end = base + bytes;

	if (!bytes || end < base)
		return false;
	while (base < end) {
		const struct vmm_mapping *m = vmm_mapped(base);

		if (!m || m->base != base || m->bytes > end - base)
			return false;
		base += m->bytes;
	}
	return true;
}

/* The first address from `from` on, a multiple of `alignment`, with room for bytes; 0 for none. */
static uint64_t gap(uint64_t from, uint64_t bytes, uint64_t alignment,
		    struct vmm_reservation ***place)
{
	struct vmm_reservation **p = &state.first;
	uint64_t base = (from + alignment - 1) & ~(alignment - 1);

	for (; *p; p = &(*p)->next) {
		if ((*p)->base >= base && (*p)->base - base >= bytes)
			break;
		if ((*p)->base + (*p)->bytes > base)
			base = ((*p)->base + (*p)->bytes + alignment - 1) & ~(alignment - 1);
	}
	*place = p;
	return base < VMM_END && bytes <= VMM_END - base ? base : 0;
}

/* Takes addresses on both sides; false if either side has something there. */
static bool take(uint64_t base, uint64_t bytes, CUresult *result)
{
	void *at = (void *)(uintptr_t)base, *got;

	got = mmap(at, bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (got != MAP_FAILED && got != at)
		munmap(got, bytes);
	if (got != at)
		return false;
	*result = call_cuMemAddressReserve(base, bytes);
	if (*result)
		munmap(at, bytes);
	return *result != CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult reserve(struct vmm_reservation *r, uint64_t hint, uint64_t wanted)
{
	uint64_t least = r->bytes < ALIGN_LARGE ? ALIGN : ALIGN_LARGE,
		 alignment = wanted > least ? wanted : least;
	uint64_t from = hint >= VMM_BASE && hint < VMM_END ? hint : VMM_BASE;
	struct vmm_reservation **place;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	for (unsigned i = 0; i < TRIES; i++) {
		r->base = gap(from, r->bytes, alignment, &place);
		if (!r->base && from == VMM_BASE)
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (r->base && take(r->base, r->bytes, &result)) {
			if (!result) {
				r->next = *place;
				*place = r;
			}
			return result;
		}
		from = r->base ? r->base + STEP : VMM_BASE;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + VMM_PAGE - 1) & ~(VMM_PAGE - 1);
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
				    CUdeviceptr addr, unsigned long long flags)
{
	struct vmm_reservation *r;
	CUresult result;

	ENTER();
	if (!ptr || !size || size % VMM_PAGE || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (size > VMM_END - VMM_BASE || alignment > VMM_END - VMM_BASE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = calloc(1, sizeof(*r) + rounded(size) / VMM_PAGE * sizeof(r->page[0]));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->bytes = rounded(size);
	pthread_mutex_lock(&vmm_lock);
	result = reserve(r, addr, alignment);
	pthread_mutex_unlock(&vmm_lock);
	if (result)
		free(r);
	else
		*ptr = r->base;
	return result;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct vmm_reservation **p, *r;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	ENTER();
	pthread_mutex_lock(&vmm_lock);
	for (p = &state.first; *p && (*p)->base != ptr;)
		p = &(*p)->next;
	r = *p;
	if (r && size == r->bytes && !r->mappings)
		result = call_cuMemAddressFree(r->base, r->bytes);
	if (!result) {
		munmap((void *)(uintptr_t)r->base, r->bytes);
		*p = r->next;
		free(r);
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}
