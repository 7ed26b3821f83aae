/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory of a captured copy: ordinary memory is pinned, since each run of the graph reads or
 * writes it.
 */
#ifndef PARACUDA_CAPTURE_PIN_H
#define PARACUDA_CAPTURE_PIN_H

#include "abi/cuda_abi.h"

/*
 * [address, address + *bytes) is cut to what one map has. The map is valid until the pins end; then
 * another thread may need some of the pages.
 */
void capture_pins_begin(void);
void capture_pins_end(void);
CUresult capture_pin(uint64_t address, uint64_t *bytes, uint32_t *map, uint64_t *offset);

/* Pins all of [address, address + bytes), for a node, which names memory by its address. */
CUresult capture_pin_all(uint64_t address, uint64_t bytes);

#endif
