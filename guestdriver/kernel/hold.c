// SPDX-License-Identifier: GPL-2.0
/*
 * Pinning in User Mode Linux. On several processors it makes system calls of the host whenever
 * interrupts are switched off, and the counters of pinned pages do that for each page: 1 us a page,
 * and the processors get in each other's way. Here pages are held by references alone where these
 * are enough: for a copy, and where the memory is this driver's own, which neither fork() nor the
 * management of memory gives away.
 */

#include <linux/fs.h>

#include "paracuda.h"

#ifdef CONFIG_UML

/* Whether pages may be held so. */
bool paracuda_holds(unsigned long start, unsigned long count, u32 flags)
{
	struct vm_area_struct *vma;
	bool own;

	if (flags & PARACUDA_MAP_FLAG_ONESHOT)
		return true;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, start);
	own = vma && vma->vm_file && vma->vm_file->f_op == &paracuda_fops &&
	      (vma->vm_end - start) >> PAGE_SHIFT >= count;
	mmap_read_unlock(current->mm);
	return own;
}

/*
 * Pins a page for a moment. The zero page, which is out of the host's sight, is replaced by that,
 * and fork() looks from then on whether pages of the process are pinned.
 */
static int paracuda_touch(unsigned long start, unsigned int gup)
{
	struct page *page;
	int n = pin_user_pages_fast(start, 1, gup | FOLL_LONGTERM, &page);

	if (n == 1)
		unpin_user_page(page);
	return n;
}

/* As many as are there, before the first zero page. */
static long paracuda_hold_some(unsigned long start, unsigned long count, unsigned int gup,
			       struct page **pages)
{
	struct mm_struct *mm = current->mm;
	long i, n, good = 0;

	/* fork() is kept away until the pages that are written count as pinned. */
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	n = get_user_pages(start, count, gup, pages);
	while (good < n && !is_zero_page(pages[good])) {
		if (gup & FOLL_WRITE)
			page_ref_add(pages[good], GUP_PIN_COUNTING_BIAS - 1);
		good++;
	}
	mmap_read_unlock(mm);
	for (i = good; i < n; i++)
		put_page(pages[i]);
	return n < 0 ? n : good;
}

int paracuda_hold(unsigned long start, unsigned long count, unsigned int gup, struct page **pages)
{
	int n;

	gup &= FOLL_WRITE;
	if (gup) {
		n = paracuda_touch(start, gup);
		if (n != 1)
			return n;
	}
	n = paracuda_hold_some(start, count, gup, pages);
	if (n)
		return n;
	n = paracuda_touch(start, gup);
	return n == 1 ? paracuda_hold_some(start, 1, gup, pages) : n;
}

void paracuda_let_go(struct page *page, unsigned long count, bool dirty)
{
	for (; count; count--, page++) {
		if (dirty && !PageDirty(page))
			set_page_dirty_lock(page);
		if (dirty)
			folio_put_refs(page_folio(page), GUP_PIN_COUNTING_BIAS);
		else
			put_page(page);
	}
}

#endif
