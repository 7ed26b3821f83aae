/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: memory of this process that the device reaches in place, at the same address.
 * Host and device may touch it in turn and at the same time. Nothing moves: a kernel's accesses go
 * over the bus.
 */
#ifndef PARACUDA_MANAGED_H
#define PARACUDA_MANAGED_H

#include "addresses/memory_map.h"

/* Frees the allocation that begins at an address, when the work is done that may use it. */
CUresult managed_free(CUdeviceptr dptr);

/*
 * Makes memory for the managed variables of a module of c, or with NULL of a library: zeroed.
 */
CUresult managed_variables_make(uint64_t bytes, struct context *c, uint64_t *base);

/* Frees such memory; 0 is none. */
void managed_variables_end(uint64_t base);

/* The managed allocation, or memory of variables, that holds a non-empty range. */
bool managed_find(uint64_t address, uint64_t bytes, struct memory *m);

#endif
