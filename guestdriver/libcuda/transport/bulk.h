/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena's bulk area: memory for payloads that are too large for a command and not worth
 * pinning.
 */
#ifndef PARACUDA_BULK_H
#define PARACUDA_BULK_H

#include <stddef.h>
#include <stdint.h>

void bulk_init(uint64_t offset, size_t bytes);

/* The most that bulk_take gives. */
size_t bulk_limit(void);

/*
 * Takes memory: its offset in the arena, or 0 if there isn't as much (the caller then pins its
 * own).
 */
uint64_t bulk_take(size_t bytes);

void bulk_give(uint64_t offset);

#endif
