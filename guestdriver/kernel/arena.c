// SPDX-License-Identifier: GPL-2.0
/* The arena: pages of the kernel, shared by a process and its worker. */

#include <linux/mm.h>
#include <linux/slab.h>

#include "paracuda.h"

/* Orders that are tried: large ones for few runs if that is cheap, else single pages. */
static const unsigned int paracuda_orders[] = { 9, 4, 0 };

/*
 * Zeroed pages, neighbours, at most `want`. They are one allocation until split_page(), or for good
 * with __GFP_COMP in `more`.
 */
struct page *paracuda_alloc_contiguous(unsigned long want, unsigned int *order, gfp_t more)
{
	struct page *page;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(paracuda_orders); i++) {
		gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | more;

		*order = paracuda_orders[i];
		if (want < 1UL << *order)
			continue;
		if (*order)
			gfp |= __GFP_NORETRY;
		page = alloc_pages(gfp, *order);
		if (page)
			return page;
	}
	return NULL;
}

int paracuda_arena_alloc(struct paracuda_arena *arena, unsigned long bytes)
{
	unsigned long i, want = bytes >> PAGE_SHIFT;
	struct page *page;
	unsigned int order;

	BUILD_BUG_ON(sizeof(struct paracuda_arena_header) != PARACUDA_SIZEOF_ARENA_HEADER);
	BUILD_BUG_ON(sizeof(struct paracuda_arena_header) > PAGE_SIZE);

	arena->count = 0;
	arena->pages = kvmalloc_array(want, sizeof(*arena->pages), GFP_KERNEL_ACCOUNT);
	if (!arena->pages)
		return -ENOMEM;
	while (arena->count < want) {
		page = paracuda_alloc_contiguous(want - arena->count, &order, __GFP_COMP);
		if (!page) {
			paracuda_arena_free(arena);
			return -ENOMEM;
		}
		for (i = 0; i < 1UL << order; i++)
			arena->pages[arena->count++] = page + i;
		cond_resched();
	}
	return 0;
}

/* Called when nobody maps it any more, and the host has let go of it. */
void paracuda_arena_free(struct paracuda_arena *arena)
{
	unsigned long i, next;

	for (i = 0; i < arena->count; i = next) {
		next = i + (1UL << compound_order(arena->pages[i]));
		put_page(arena->pages[i]);
	}
	kvfree(arena->pages);
	arena->pages = NULL;
	arena->count = 0;
}

/* Makes the chain of a channel's arena. */
int paracuda_arena_chain(struct paracuda_channel *ch)
{
	struct paracuda_token *chain = &ch->arena_chain;
	struct paracuda_arena *arena = &ch->arena;
	unsigned long i;
	int err;

	err = paracuda_token_init(ch, chain, PARACUDA_CHAIN_ARENA);
	if (err)
		return err;
	chain->header->bytes = (u64)arena->count << PAGE_SHIFT;
	for (i = 0; i < arena->count && !err; i++)
		err = paracuda_token_append(ch, chain, arena->pages[i]);
	return err;
}

/* Flags for memory that no child inherits, all of which is mapped from the beginning. */
void paracuda_vma_flags(struct vm_area_struct *vma)
{
	const unsigned long flags = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
#ifdef CONFIG_UML
	/* In User Mode Linux the first write to each page would otherwise be an expensive fault. */
	vma->vm_page_prot = __pgprot(pgprot_val(vma->vm_page_prot) | _PAGE_ACCESSED | _PAGE_DIRTY);
#endif
}
