/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of this process that the worker has pinned. Programs register ranges of any bytes, so
 * others may have parts of a range's first and last page: such pages are pinned once, for all.
 */
#ifndef PARACUDA_PINS_H
#define PARACUDA_PINS_H

#include "addresses/memory_map.h"

/*
 * Pins those pages of memory that no other memory has pinned. For registered memory it is called
 * under a lock, together with memory_enter.
 */
CUresult pins_make(struct memory *m);

/*
 * Undoes it, for the pages that no other memory has. Registered memory has been taken out of the
 * memory map, under the lock.
 */
CUresult pins_end(struct memory *m);

#endif
