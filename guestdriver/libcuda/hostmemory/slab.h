/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small allocations of host memory that share pages, which are pinned once: pinning and mapping
 * costs calls of the guest's kernel, the worker and the host's kernel, and a worker can't have many
 * mappings.
 */
#ifndef PARACUDA_SLAB_H
#define PARACUDA_SLAB_H

#include "addresses/memory_map.h"

/*
 * Whether memory that is about to be made is to share pages. A few allocations don't: once freed,
 * the device reaches nothing of them. It counts until slab_uncount.
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
 * Gives back what slab_take made. A slab ends with its last allocation. waited: no work uses the
 * allocation any more; otherwise its pages aren't reused before that work was waited for.
 */
CUresult slab_give(struct memory *m, bool waited);

/* Nothing more goes into the slabs of a context that ends, and whose registrations end with it. */
void slab_close(const struct context *c);

#endif
