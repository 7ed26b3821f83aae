/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this process that the device can reach, pinned for as long as it exists. */
#ifndef PARACUDA_HOST_MEMORY_H
#define PARACUDA_HOST_MEMORY_H

#include "memory_map.h"

/* Makes memory of m's kind, size, flags and context, and enters it in the memory map. OUT_OF_MEMORY when there is none. */
CUresult host_memory_make(struct memory *m);

/* Gives back what was made, after it was taken out of the memory map. No work may use it any more. */
CUresult host_memory_end(struct memory *m);

#endif
