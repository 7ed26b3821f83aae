/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the just-in-time compiler, as module and library loads take them. */
#ifndef PARACUDA_JIT_H
#define PARACUDA_JIT_H

#include "abi/cuda_abi.h"

struct jit {
	uint64_t pair[2 * CUDA_MAX_JIT_OPTIONS]; /* id and value of those that the worker gets */
	unsigned pairs;
	void *info, *error; /* log buffers, NULL for none */
	size_t info_bytes, error_bytes;
	void **info_used, **error_used; /* where their used sizes are written back */
	float *wall_time; /* where the milliseconds spent are written back */
	uint64_t begun, spent; /* ns */
};

CUresult jit_parse(struct jit *j, unsigned count, const int *options, void **values);

/* Says that the compiler begins now; jit_parse does so, too. */
void jit_begin(struct jit *j);

/* Writes back how much of the logs the compiler used, and the time that it took. */
void jit_finish(struct jit *j, uint64_t info_used, uint64_t error_used);

#endif
