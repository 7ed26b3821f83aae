// SPDX-License-Identifier: GPL-2.0
/*
 * Pinning in User Mode Linux. On several processors, switching interrupts off takes system calls of
 * the host, and the counters of pinned pages do that for each page: 1 us a page, and processors get
 * in each other's way. Here pages are held by references alone if these are enough: for a copy, in
 * this driver's own memory, and in anonymous memory that is written. Nothing moves pages for good
 * here: there are no zones, and no huge pages are made.
 */

#include <linux/pgtable.h>
#include <linux/prefetch.h>
#include <linux/sched/coredump.h>

#include "paracuda.h"

#ifdef CONFIG_UML

static bool paracuda_own(const struct vm_area_struct *vma)
{
	return vma->vm_ops == &paracuda_arena_vm_ops || vma->vm_ops == &paracuda_host_alloc_vm_ops;
}

/*
 * Whether pages may be held like this. For longer than a copy they may only if no file system need
 * know of it, and if they are written: then no other process has them, and fork() copies them at
 * once.
 */
bool paracuda_holds(unsigned long start, unsigned long count, u32 flags)
{
	unsigned long end = start + (count << PAGE_SHIFT);
	bool write = flags & PARACUDA_MAP_FLAG_WRITE, may = true;
	struct vm_area_struct *vma;

	if (flags & PARACUDA_MAP_FLAG_ONESHOT)
		return true;
	mmap_read_lock(current->mm);
	while (may && start < end) {
		vma = vma_lookup(current->mm, start);
		may = vma && (paracuda_own(vma) || (write && vma_is_anonymous(vma)));
		if (may)
			start = vma->vm_end;
	}
	mmap_read_unlock(current->mm);
	return may;
}

/* Pins a page for a moment, which replaces the zero page: the host can't see that one. */
static int paracuda_touch(unsigned long start, unsigned int gup)
{
	struct page *page;
	int n = pin_user_pages_fast(start, 1, gup | FOLL_LONGTERM, &page);

	if (n == 1)
		unpin_user_page(page);
	return n;
}

/*
 * The page behind an entry, or NULL where get_user_pages() is needed: to fault it in, or because of
 * its kind. For other pages that function takes five times as long, since it starts over for each
 * page.
 */
static struct page *paracuda_plain_page(pte_t pte, bool write)
{
	struct page *page;

	if (!pte_present(pte) || !(write ? pte_write(pte) : pte_read(pte)))
		return NULL;
	page = pte_page(pte);
	return is_zero_page(page) || page_count(page) <= 0 ? NULL : page;
}

/* How many pages ahead their counters are fetched, which may lie anywhere. */
#define PARACUDA_AHEAD	8

/* Holds pages of one page table. Under its lock the entries don't change. */
static unsigned long paracuda_hold_table(pte_t *pte, unsigned long count, bool write,
					 struct page **pages)
{
	unsigned long i;

	for (i = 0; i < count; i++) {
		pte_t ahead = ptep_get(pte + min(i + PARACUDA_AHEAD, count - 1));

		if (pte_present(ahead))
			prefetchw(pte_page(ahead));
		pages[i] = paracuda_plain_page(ptep_get(pte + i), write);
		if (!pages[i])
			break;
		folio_ref_add(page_folio(pages[i]), write ? GUP_PIN_COUNTING_BIAS : 1);
	}
	return i;
}

/*
 * The entry for the page table of an address, or NULL. It stays where it is while mmap_lock is held
 * for reading and something is mapped at the address: otherwise munmap() may be freeing the tables.
 * The table that it points to may still go (MADV_DONTNEED with CONFIG_PT_RECLAIM).
 */
static pmd_t *paracuda_pmd(struct mm_struct *mm, unsigned long address)
{
	pgd_t *pgd = pgd_offset(mm, address);
	p4d_t *p4d;
	pud_t *pud;

	if (!pgd_present(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, address);
	if (!p4d_present(*p4d))
		return NULL;
	pud = pud_offset(p4d, address);
	return pud_present(*pud) ? pmd_offset(pud, address) : NULL;
}

/* Holds pages of the page table that an entry points to, if it still does when that is locked. */
static unsigned long paracuda_hold_entry(pmd_t *pmd, unsigned long start, unsigned long count,
					 bool write, struct page **pages)
{
	unsigned long n = 0;
	spinlock_t *lock;
	pmd_t entry;

	/* A table that goes is freed, and its lock with it, when no reader can see it any more. */
	rcu_read_lock();
	entry = pmdp_get_lockless(pmd);
	if (pmd_present(entry)) {
		lock = pte_lockptr(current->mm, &entry);
		spin_lock(lock);
		if (pmd_same(entry, pmdp_get_lockless(pmd)))
			n = paracuda_hold_table(pte_offset_kernel(&entry, start), count, write,
						pages);
		spin_unlock(lock);
	}
	rcu_read_unlock();
	return n;
}

/*
 * Whether all pages of a range are the process's own, or this driver's, and may be accessed like
 * that.
 */
static bool paracuda_plain(struct vm_area_struct *vma, bool write)
{
	if (!vma || !(vma->vm_flags & (write ? VM_WRITE : VM_READ)))
		return false;
	return paracuda_own(vma) ||
	       (vma_is_anonymous(vma) && !(vma->vm_flags & (VM_IO | VM_PFNMAP)));
}

/* Holds the pages before the first that is not there, or not plain. Under mmap_lock. */
static unsigned long paracuda_hold_plain(unsigned long start, unsigned long count, bool write,
					 struct page **pages)
{
	struct mm_struct *mm = current->mm;
	unsigned long n = 0, want, got;

	do {
		struct vm_area_struct *vma = vma_lookup(mm, start);
		unsigned long end = start + ((count - n) << PAGE_SHIFT);
		pmd_t *pmd;

		if (!paracuda_plain(vma, write))
			break;
		pmd = paracuda_pmd(mm, start);
		if (!pmd)
			break;
		end = min(pmd_addr_end(start, end), vma->vm_end);
		want = (end - start) >> PAGE_SHIFT;
		got = paracuda_hold_entry(pmd, start, want, write, pages + n);
		n += got;
		start = end;
	} while (got == want && n < count);
	return n;
}

/* Holds as many pages as are there, up to the first zero page. */
static long paracuda_hold_some(unsigned long start, unsigned long count, unsigned int gup,
			       struct page **pages)
{
	struct mm_struct *mm = current->mm;
	long i, n, good;

	/* Keeps fork() away until the pages that are written count as pinned. */
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	n = paracuda_hold_plain(start, count, gup & FOLL_WRITE, pages);
	good = n;
	if (!n)
		n = get_user_pages(start, count, gup, pages);
	while (good < n && !is_zero_page(pages[good])) {
		if (gup & FOLL_WRITE)
			folio_ref_add(page_folio(pages[good]), GUP_PIN_COUNTING_BIAS - 1);
		good++;
	}
	mmap_read_unlock(mm);
	for (i = good; i < n; i++)
		put_page(pages[i]);
	return n < 0 ? n : good;
}

/* From now on fork() checks whether pages of the process are pinned. */
static void paracuda_tell_fork(struct mm_struct *mm)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
	if (!mm_flags_test(MMF_HAS_PINNED, mm))
		mm_flags_set(MMF_HAS_PINNED, mm);
#else
	set_bit(MMF_HAS_PINNED, &mm->flags);
#endif
}

int paracuda_hold(unsigned long start, unsigned long count, unsigned int gup, struct page **pages)
{
	int n;

	gup &= FOLL_WRITE;
	if (gup)
		paracuda_tell_fork(current->mm);
	n = paracuda_hold_some(start, count, gup, pages);
	if (n)
		return n;
	n = paracuda_touch(start, gup);
	return n == 1 ? paracuda_hold_some(start, 1, gup, pages) : n;
}

#endif
