// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for cuMemHostAlloc in User Mode Linux, where counting a page as it is mapped or unmapped
 * costs several system calls of the host. Here nothing is counted: a mapping shows pages of an
 * allocation, which ends with the last part of the mapping. Code that looks for the pages behind
 * addresses (direct I/O, for instance) finds none; this driver does (hold.c).
 */

#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "paracuda.h"

#ifdef CONFIG_UML

struct paracuda_host_alloc {
	struct paracuda_device *dev;	/* stays: a mapping holds its file */
	struct paracuda_user *user;	/* the same: the file holds its channel */
	refcount_t mappings;
	unsigned long pages;		/* as counted by the device */
	unsigned long heads;
	struct page *head[];		/* the first page of each allocation */
};

/* Pages that are still held live until they are let go. */
static void paracuda_host_alloc_free(struct paracuda_host_alloc *alloc)
{
	while (alloc->heads)
		put_page(alloc->head[--alloc->heads]);
	paracuda_host_uncharge(alloc->dev, alloc->user, alloc->pages);
	kvfree(alloc);
}

/* A mapping is split or moved. */
static void paracuda_host_alloc_open(struct vm_area_struct *vma)
{
	struct paracuda_host_alloc *alloc = vma->vm_private_data;

	refcount_inc(&alloc->mappings);
}

static void paracuda_host_alloc_close(struct vm_area_struct *vma)
{
	struct paracuda_host_alloc *alloc = vma->vm_private_data;

	if (refcount_dec_and_test(&alloc->mappings))
		paracuda_host_alloc_free(alloc);
}

const struct vm_operations_struct paracuda_host_alloc_vm_ops = {
	.open = paracuda_host_alloc_open,
	.close = paracuda_host_alloc_close,
};

/* Adds contiguous pages and maps them at addr: the number of pages, or an error. */
static long paracuda_host_alloc_add(struct paracuda_host_alloc *alloc, struct vm_area_struct *vma,
			       unsigned long addr)
{
	unsigned int order;
	struct page *page;
	int err;

	if (fatal_signal_pending(current))
		return -EINTR;
	page = paracuda_alloc_contiguous((vma->vm_end - addr) >> PAGE_SHIFT, &order, __GFP_COMP);
	if (!page)
		return -ENOMEM;
	alloc->head[alloc->heads++] = page;
	err = remap_pfn_range(vma, addr, page_to_pfn(page), PAGE_SIZE << order, vma->vm_page_prot);
	cond_resched();
	return err ? err : 1L << order;
}

/* The pages were counted by paracuda_host_charge(). */
int paracuda_host_alloc_map(struct paracuda_channel *ch, struct vm_area_struct *vma)
{
	struct paracuda_host_alloc *alloc;
	unsigned long addr;
	long pages;

	alloc = kvzalloc(struct_size(alloc, head, vma_pages(vma)), GFP_KERNEL_ACCOUNT);
	if (!alloc) {
		paracuda_host_uncharge(ch->dev, ch->user, vma_pages(vma));
		return -ENOMEM;
	}
	alloc->dev = ch->dev;
	alloc->user = ch->user;
	alloc->pages = vma_pages(vma);
	refcount_set(&alloc->mappings, 1);
	for (addr = vma->vm_start; addr < vma->vm_end; addr += pages << PAGE_SHIFT) {
		pages = paracuda_host_alloc_add(alloc, vma, addr);
		if (pages < 0) {
			/* Nothing else removes the mappings of pages that go. */
			zap_special_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start);
			paracuda_host_alloc_free(alloc);
			return pages;
		}
	}
	vma->vm_private_data = alloc;
	vma->vm_ops = &paracuda_host_alloc_vm_ops;
	return 0;
}

#endif
