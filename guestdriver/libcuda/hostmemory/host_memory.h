/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this process that the device can reach, pinned for as long as it exists. */
#ifndef PARACUDA_HOST_MEMORY_H
#define PARACUDA_HOST_MEMORY_H

#include "addresses/memory_map.h"

/*
 * Makes memory of m's kind, size, flags and context, and enters it in the memory map. OUT_OF_MEMORY
 * when there is none.
 */
CUresult host_memory_make(struct memory *m);

/* The same for memory with pages of its own, which isn't entered; and the end of such memory. */
CUresult host_memory_make_alone(struct memory *m);
CUresult host_memory_end_alone(struct memory *m);

/*
 * Waits for work that may use memory before it is given back: that of its context, and of the
 * current one. *waited becomes false if waiting is forbidden, since a stream is being captured.
 */
CUresult host_memory_settle(const struct memory *m, bool *waited);

/*
 * Gives back what was made or registered, after it was taken out of the memory map. waited: no work
 * uses it any more; otherwise the worker waits.
 */
CUresult host_memory_end(struct memory *m, bool waited);

/* Gives back all memory of a context that is about to end. */
void host_memory_forget_context(const struct context *c);

#endif
