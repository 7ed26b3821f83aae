/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "copies/capture_pin.h"

#include "addresses/memory_map.h"
#include "base/page.h"
#include "context/zz_generated_commands.h"

/* Ordinary memory is shown to the host in steps, since one MAP holds no more. */
#define SHOWN_MOST ((uint64_t)PARACUDA_RUNS_PER_MAP * 4096)

static struct {
	pthread_mutex_t lock; /* held while pinned pages must stay */
} state = { PTHREAD_MUTEX_INITIALIZER };

void capture_pins_begin(void)
{
	pthread_mutex_lock(&state.lock);
}

void capture_pins_end(void)
{
	pthread_mutex_unlock(&state.lock);
}

/*
 * Makes graphs find the pages that are at these addresses now. They stay until others are shown
 * there: the pages at an address may change without this library's knowledge, and graphs know only
 * addresses.
 */
static CUresult show(uint64_t base, uint64_t bytes, uint32_t *map)
{
	CUresult result = map_memory((void *)(uintptr_t)base, bytes, PARACUDA_MAP_FLAG_WRITE, map);
	struct request r;

	if (result == CUDA_ERROR_INVALID_VALUE) /* read-only memory */
		result = map_memory((void *)(uintptr_t)base, bytes, 0, map);
	if (result)
		return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : result;
	result = call_HostPageable(*map, base, bytes);
	if (result) {
		request_UNMAP(&r, *map);
		r.always = true;
		channel_call(&r, NULL, 0);
	}
	return result;
}

CUresult capture_pin(uint64_t address, uint64_t *bytes, uint32_t *map, uint64_t *offset)
{
	uint64_t base = page_begin(address);
	struct memory m;

	if (memory_find(address, &m) && memory_on_host(&m)) {
		for (unsigned i = 0; i < m.registrations_count; i++) {
			const struct registration *g = &m.registrations[i];

			if (address - g->base >= g->bytes)
				continue;
			*map = g->map;
			*offset = g->offset + (address - g->base);
			if (*bytes > g->bytes - (address - g->base))
				*bytes = g->bytes - (address - g->base);
			return CUDA_SUCCESS;
		}
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (*bytes > SHOWN_MOST - page_bytes())
		*bytes = SHOWN_MOST - page_bytes();
	*offset = address - base;
	return show(base, page_end(address + *bytes) - base, map);
}

CUresult capture_pin_all(uint64_t address, uint64_t bytes)
{
	CUresult result = CUDA_SUCCESS;

	capture_pins_begin();
	while (!result && bytes) {
		uint64_t step = bytes, offset;
		uint32_t map;

		result = capture_pin(address, &step, &map, &offset);
		address += step;
		bytes -= step;
	}
	capture_pins_end();
	return result;
}
