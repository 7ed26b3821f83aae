/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "code/jit.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

/* The last option that driver 580 knows. */
#define JIT_LAST CU_JIT_SPLIT_COMPILE

#define BIT(option) (UINT64_C(1) << (option))
#define SYMBOLS                                                                  \
	(BIT(CU_JIT_GLOBAL_SYMBOL_NAMES) | BIT(CU_JIT_GLOBAL_SYMBOL_ADDRESSES) | \
	 BIT(CU_JIT_GLOBAL_SYMBOL_COUNT))
/* Options that are of no use without a value. */
#define WITH_VALUE \
	(SYMBOLS | BIT(CU_JIT_REFERENCED_KERNEL_NAMES) | BIT(CU_JIT_REFERENCED_VARIABLE_NAMES))
/*
 * Options that mean nothing to another process: arrays of names and addresses, and how many of its
 * threads compile.
 */
#define OWN                                                                                    \
	(SYMBOLS | BIT(CU_JIT_REFERENCED_KERNEL_NAMES) | BIT(CU_JIT_REFERENCED_KERNEL_COUNT) | \
	 BIT(CU_JIT_REFERENCED_VARIABLE_NAMES) | BIT(CU_JIT_REFERENCED_VARIABLE_COUNT) |       \
	 BIT(CU_JIT_SPLIT_COMPILE))

/* Whether a log has either both its size and its buffer, or neither. */
static bool is_log(uint64_t given, int buffer, int size, const void *log)
{
	return given & BIT(buffer) ? given & BIT(size) || log : !(given & BIT(size));
}

/* As driver 580 has it; the options about symbols go together. */
static bool is_complete(uint64_t given, const struct jit *j)
{
	return is_log(given, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, j->info) &&
	       is_log(given, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
		      j->error) &&
	       (!(given & SYMBOLS) || (given & SYMBOLS) == SYMBOLS);
}

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
	uint64_t given = 0;

	memset(j, 0, sizeof(*j));
	if (count > CUDA_MAX_JIT_OPTIONS || (count && !options))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		uintptr_t value = values ? (uintptr_t)values[i] : 0;

		if (options[i] < 0 || options[i] > JIT_LAST ||
		    (!value && BIT(options[i]) & WITH_VALUE))
			return CUDA_ERROR_INVALID_VALUE;
		given |= BIT(options[i]);
		switch (options[i]) {
		case CU_JIT_WALL_TIME:
			/* The value is the float itself, in the array of pointers. */
			j->wall_time = values ? (float *)&values[i] : NULL;
			break;
		case CU_JIT_INFO_LOG_BUFFER:
			j->info = (void *)value;
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			j->info_bytes = (uint32_t)value;
			j->info_used = values ? &values[i] : NULL;
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			j->error = (void *)value;
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			j->error_bytes = (uint32_t)value;
			j->error_used = values ? &values[i] : NULL;
			break;
		default:
			if (BIT(options[i]) & OWN)
				break;
			j->pair[2 * j->pairs] = (uint64_t)options[i];
			j->pair[2 * j->pairs + 1] = (uint32_t)value;
			j->pairs++;
		}
	}
	if (!is_complete(given, j))
		return CUDA_ERROR_INVALID_VALUE;
	if (!j->info)
		j->info_bytes = 0;
	if (!j->error)
		j->error_bytes = 0;
	jit_begin(j);
	return CUDA_SUCCESS;
}

void jit_finish(struct jit *j, uint64_t info_used, uint64_t error_used)
{
	/* A program may check that no more is used than it has given. */
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
