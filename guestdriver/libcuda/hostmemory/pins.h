/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of this process that the worker has pinned. Ranges that are registered are a program's own,
 * to the byte, so the first and last page of one may be another's too: they are pinned once, for
 * all.
 */
#ifndef PARACUDA_PINS_H
#define PARACUDA_PINS_H

#include "addresses/memory_map.h"

/*
 * Pins the pages of memory that no other has pinned. Of registered memory under a lock, together
 * with memory_enter.
 */
CUresult pins_make(struct memory *m);

/*
 * Undoes it, for the pages that no other memory has. Registered memory has been taken out of the
 * memory map, under the lock.
 */
CUresult pins_end(struct memory *m);

#endif
