/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_LAUNCH_H
#define PARACUDA_LAUNCH_H

#include <stdbool.h>

#include "abi/cuda_abi.h"

struct description;

/* The dimensions of the grid and of a block, and the shared memory. */
struct shape {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;
};

/* What the driver finds wrong with a shape for any function, before anything is launched. */
CUresult launch_check(const struct shape *s, CUdevice dev);

/*
 * Whether a launch with that many bytes of parameters may be refused for what its function needs.
 * Then its answer is awaited: CUDA reports this at the launch, and programs that try configurations
 * rely on it. If *proof isn't 0, pass it to launch_proven after success: then launches like this
 * one are no longer doubtful.
 */
bool launch_doubtful(const struct shape *s, const struct description *d, CUdevice dev, size_t bytes,
		     const CUlaunchAttribute *attributes, unsigned count, uint64_t *proof);
void launch_proven(struct description *d, uint64_t proof);

/* Reads CUDA_LAUNCH_BLOCKING. */
void launch_init(void);

/* What the driver finds wrong with an attribute itself; the launch itself must report that. */
CUresult launch_attribute(const CUlaunchAttribute *a, CUdevice dev);

/* The packed parameters of the `extra` form. */
CUresult launch_extra(void **extra, const void **data, size_t *bytes);

/* Packs parameters by the function's layout. */
void launch_pack(uint8_t *to, const struct description *d, void **parameters);

#endif
