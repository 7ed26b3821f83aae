/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small allocations of host memory that share pages which are pinned once: to pin and map pages
 * takes calls of the guest's kernel, of the worker and of the host's, and a worker can have so many
 * mappings only.
 */
#ifndef PARACUDA_SLAB_H
#define PARACUDA_SLAB_H

#include "addresses/memory_map.h"

/*
 * Whether memory of this process that is about to be made is to share pages. Few don't: of
 * these the device reaches nothing any more as soon as they are freed. It counts until
 * slab_uncount.
 */
bool slab_wanted(const struct memory *m);

/* Memory for which slab_wanted was called is gone. */
void slab_uncount(const struct memory *m);

/*
 * Makes memory of m's kind, size and context, zeroed, on whole pages of a slab, and its
 * registrations.
 */
CUresult slab_take(struct memory *m);

/*
 * Gives back what slab_take made. The last allocation of a slab takes that with it. waited: no work
 * uses the allocation any more; otherwise its pages aren't used before its work can be waited for.
 */
CUresult slab_give(struct memory *m, bool waited);

/* Nothing more goes into a context's slabs: it ends, and what is registered in it. */
void slab_close(const struct context *c);

#endif
