// SPDX-License-Identifier: GPL-2.0
/*
 * Mapping the arena into its process.
 *
 * Pages aren't counted as they are mapped and unmapped, so that a program begins and ends sooner.
 * The channel holds them for as long as its file is open, which every mapping holds.
 */

#include <linux/mm.h>

#include "paracuda.h"

/* The opener's address space ends (exit or exec), though a child may still hold the file. */
static void paracuda_arena_vm_close(struct vm_area_struct *vma)
{
	if (!atomic_read(&vma->vm_mm->mm_users))
		paracuda_channel_close(vma->vm_private_data);
}

const struct vm_operations_struct paracuda_arena_vm_ops = {
	.close = paracuda_arena_vm_close,
};

int paracuda_arena_mmap(struct paracuda_channel *ch, struct vm_area_struct *vma)
{
	unsigned long addr, bytes;
	struct page *page;
	int err;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_pgoff || vma_pages(vma) != ch->arena.count)
		return -EINVAL;
	paracuda_vma_flags(vma);
	/* The mapping holds the file, and the file the channel. */
	vma->vm_private_data = ch;
	vma->vm_ops = &paracuda_arena_vm_ops;
	for (addr = vma->vm_start; addr < vma->vm_end; addr += bytes) {
		page = ch->arena.pages[(addr - vma->vm_start) >> PAGE_SHIFT];
		bytes = PAGE_SIZE << compound_order(page);
		err = remap_pfn_range(vma, addr, page_to_pfn(page), bytes, vma->vm_page_prot);
		if (err)
			return err;
	}
	return 0;
}
