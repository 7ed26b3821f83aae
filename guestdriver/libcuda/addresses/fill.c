/* SPDX-License-Identifier: Apache-2.0 */
#include "addresses/fill.h"

#include "addresses/memory_map.h"
#include "devices/device.h"

CUresult fill_check(uint64_t address, uint64_t width, uint64_t rows, uint64_t pitch,
		    unsigned element)
{
	uint64_t bytes, row;
	struct memory m;

	if (!width || !rows)
		return CUDA_SUCCESS;
	if (address % element || __builtin_mul_overflow(width, element, &row) ||
	    (rows > 1 && (pitch < row || pitch % element)) ||
	    __builtin_mul_overflow(pitch, rows - 1, &bytes) ||
	    __builtin_add_overflow(bytes, row, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return memory_find(address, &m) && bytes <= m.bytes - (address - m.base) ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_VALUE;
}

CUresult fill_send(const struct request *r, uint64_t address)
{
	const struct context *c = context_current();
	struct memory m;

	if (c && devices.count > 1 && memory_find(address, &m) && memory_on_device(&m) &&
	    m.device != c->device)
		return channel_call(r, NULL, 0);
	return channel_post(r);
}

enum paracuda_memory fill_target(uint64_t address)
{
	struct memory m;

	return memory_find(address, &m) && !memory_by_address(&m) ? PARACUDA_PINNED :
								    PARACUDA_DEVICE;
}
