/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "code/jit.h"

#include <string.h>
#include <time.h>

enum {
	JIT_WALL_TIME = 2,
	JIT_INFO_BUFFER = 3,
	JIT_INFO_SIZE = 4,
	JIT_ERROR_BUFFER = 5,
	JIT_ERROR_SIZE = 6,
	JIT_SYMBOL_NAMES = 17,
	JIT_SYMBOL_COUNT = 19,
	JIT_KERNEL_NAMES = 25,
	JIT_VARIABLE_COUNT = 28,
	JIT_LAST = 33,
};

static uint64_t nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void jit_begin(struct jit *j)
{
	if (j->wall_time)
		j->begun = nanoseconds();
}

CUresult jit_parse(struct jit *j, unsigned count, const int *options, void **values)
{
	memset(j, 0, sizeof(*j));
	if (count > JIT_OPTIONS || (count && !options))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		uintptr_t value = values ? (uintptr_t)values[i] : 0;

		if (options[i] < 0 || options[i] > JIT_LAST)
			return CUDA_ERROR_INVALID_VALUE;
		switch (options[i]) {
		case JIT_WALL_TIME:
			/* The value is the float itself, in the array of pointers. */
			j->wall_time = values ? (float *)&values[i] : NULL;
			break;
		case JIT_INFO_BUFFER:
			j->info = (void *)value;
			break;
		case JIT_INFO_SIZE:
			j->info_bytes = (uint32_t)value;
			j->info_used = values ? &values[i] : NULL;
			break;
		case JIT_ERROR_BUFFER:
			j->error = (void *)value;
			break;
		case JIT_ERROR_SIZE:
			j->error_bytes = (uint32_t)value;
			j->error_used = values ? &values[i] : NULL;
			break;
		default:
			/* Arrays of names and addresses mean nothing to another process. */
			if ((options[i] >= JIT_SYMBOL_NAMES && options[i] <= JIT_SYMBOL_COUNT) ||
			    (options[i] >= JIT_KERNEL_NAMES && options[i] <= JIT_VARIABLE_COUNT))
				break;
			j->pair[2 * j->pairs] = (uint64_t)options[i];
			j->pair[2 * j->pairs + 1] = (uint32_t)value;
			j->pairs++;
		}
	}
	if (!j->info)
		j->info_bytes = 0;
	if (!j->error)
		j->error_bytes = 0;
	jit_begin(j);
	return CUDA_SUCCESS;
}

void jit_finish(struct jit *j, uint64_t info_used, uint64_t error_used)
{
	/* A program may check that no more is used than it gave. */
	if (info_used > j->info_bytes)
		info_used = j->info_bytes;
	if (error_used > j->error_bytes)
		error_used = j->error_bytes;
	if (j->info_used)
		*j->info_used = (void *)(uintptr_t)info_used;
	if (j->error_used)
		*j->error_used = (void *)(uintptr_t)error_used;
	if (j->wall_time) {
		j->spent += nanoseconds() - j->begun;
		*j->wall_time = (float)j->spent / 1e6f;
	}
}
