/* SPDX-License-Identifier: Apache-2.0 */
/* The program's memory that the fake worker may use: what it has mapped, and for how long. */
#ifndef PARACUDA_FAKE_MAPS_H
#define PARACUDA_FAKE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "paracuda_ioctl.h"

/* 0 or an errno, as the kernel driver's MAP. */
int fake_map(struct paracuda_ioctl_map *map);
void fake_unmap(uint32_t id);

/* The memory of a buffer argument; *id is the map to be returned after the command, or 0. */
void *fake_buffer(const uint8_t *at, uint64_t reference, uint64_t bytes, uint32_t *id);

/* Whether one map has all of it. */
bool fake_mapped(uint64_t address, uint64_t bytes);

#endif
