// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for cuMemHostAlloc: ordinary pages of the process, but contiguous ones, so that a MAP of
 * them has few runs.
 */

#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "paracuda.h"

#define PARACUDA_CONTIGUOUS_MAX	512

/* Maps contiguous pages at addr. The mapping alone holds them afterwards. */
static int paracuda_host_contiguous(struct vm_area_struct *vma, unsigned long addr,
				    unsigned long want, struct page **pages,
				    unsigned long *mapped)
{
	unsigned long i, count, left;
	unsigned int order;
	struct page *page;
	int err;

	page = paracuda_alloc_contiguous(want, &order, 0);
	if (!page)
		return -ENOMEM;
	split_page(page, order);
	count = 1UL << order;
	for (i = 0; i < count; i++)
		pages[i] = page + i;
	left = count;
	err = vm_insert_pages(vma, addr, pages, &left);
	for (i = 0; i < count; i++)
		put_page(page + i);
	*mapped = count;
	return err;
}

int paracuda_host_mmap(struct paracuda_channel *ch, struct vm_area_struct *vma)
{
	unsigned long left = vma_pages(vma), addr = vma->vm_start, mapped;
	struct page **pages;
	int err = 0;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (!paracuda_host_charge(ch, left))
		return -ENOMEM;
	paracuda_vma_flags(vma);
	if (IS_ENABLED(CONFIG_UML))
		return paracuda_host_alloc_map(ch, vma);
	pages = kmalloc_array(PARACUDA_CONTIGUOUS_MAX, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return -ENOMEM;
	while (left && !err) {
		if (fatal_signal_pending(current))
			err = -EINTR;
		else
			err = paracuda_host_contiguous(vma, addr,
						       min(left, PARACUDA_CONTIGUOUS_MAX), pages,
						       &mapped);
		if (err)
			break;
		addr += mapped << PAGE_SHIFT;
		left -= mapped;
		cond_resched();
	}
	kfree(pages);
	return err;
}
