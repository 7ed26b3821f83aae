// SPDX-License-Identifier: GPL-2.0
/*
 * Pieces of pages that a channel's worker touches by itself.
 *
 * Such a page holds nothing else. It stays in its pool, with pieces of one size, until the channel
 * ends: so what the worker can reach is never used for another purpose meanwhile.
 */

#include <linux/bitops.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "paracuda.h"

/* A page of a pool: page_private() of its struct page. */
struct paracuda_pool_page {
	struct list_head node;		/* in pool->some, while there are pieces to take */
	void *memory;
	u64 free;			/* bit n: the piece n can be taken; under pool->lock */
	enum paracuda_size size;
	unsigned int number;		/* in the pool */
};

static const unsigned int paracuda_shifts[PARACUDA_PIECES] = { 6, 8, 9, PAGE_SHIFT };

static struct paracuda_pool_page *paracuda_pool_page_of(const void *piece)
{
	return (struct paracuda_pool_page *)page_private(virt_to_page(piece));
}

/* The number of the piece's page in its pool. */
unsigned int paracuda_pool_number(const void *piece)
{
	return paracuda_pool_page_of(piece)->number;
}

/* Where the host finds the address of page number n. Its directory is there. */
static u64 *paracuda_pool_entry(struct paracuda_pool *pool, unsigned int n)
{
	u64 *directory = phys_to_virt(pool->directories[n / PARACUDA_DIRECTORY_PAGES]);

	return &directory[n % PARACUDA_DIRECTORY_PAGES];
}

void paracuda_pool_begin(struct paracuda_pool *pool, u64 *directories, unsigned int room)
{
	unsigned int i;

	BUILD_BUG_ON(PARACUDA_DIRECTORY_PAGES * sizeof(u64) > PAGE_SIZE);
	spin_lock_init(&pool->lock);
	mutex_init(&pool->growing);
	pool->directories = directories;
	pool->room = room;
	for (i = 0; i < PARACUDA_PIECES; i++)
		INIT_LIST_HEAD(&pool->some[i]);
}

/* The host has let go of the channel, and nobody else has it. */
void paracuda_pool_end(struct paracuda_pool *pool)
{
	unsigned int i;

	for (i = 0; i < pool->count; i++) {
		void *memory = phys_to_virt(*paracuda_pool_entry(pool, i));

		kfree(paracuda_pool_page_of(memory));
		set_page_private(virt_to_page(memory), 0);
		free_page((unsigned long)memory);
	}
	for (i = 0; i < pool->room && pool->directories[i]; i++)
		free_page((unsigned long)phys_to_virt(pool->directories[i]));
}

/* Makes a directory for the next page, if there is none. */
static bool paracuda_pool_directory(struct paracuda_pool *pool)
{
	unsigned int i = pool->count / PARACUDA_DIRECTORY_PAGES;
	void *directory;

	if (i >= pool->room)
		return false;
	if (pool->directories[i])
		return true;
	directory = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!directory)
		return false;
	WRITE_ONCE(pool->directories[i], virt_to_phys(directory));
	return true;
}

static struct paracuda_pool_page *paracuda_pool_page_new(enum paracuda_size size)
{
	struct paracuda_pool_page *page = kzalloc(sizeof(*page), GFP_KERNEL_ACCOUNT);

	if (!page)
		return NULL;
	page->memory = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!page->memory) {
		kfree(page);
		return NULL;
	}
	page->size = size;
	page->free = GENMASK_ULL((PAGE_SIZE >> paracuda_shifts[size]) - 1, 0);
	set_page_private(virt_to_page(page->memory), (unsigned long)page);
	return page;
}

/* Adds a page with pieces of a size, unless another thread has done so meanwhile. */
static bool paracuda_pool_grow(struct paracuda_pool *pool, enum paracuda_size size)
{
	struct paracuda_pool_page *page;
	bool ok;

	mutex_lock(&pool->growing);
	ok = !list_empty_careful(&pool->some[size]);
	if (!ok && paracuda_pool_directory(pool)) {
		page = paracuda_pool_page_new(size);
		ok = page;
		if (ok) {
			page->number = pool->count;
			WRITE_ONCE(*paracuda_pool_entry(pool, pool->count++),
				   virt_to_phys(page->memory));
			spin_lock(&pool->lock);
			list_add(&page->node, &pool->some[size]);
			spin_unlock(&pool->lock);
		}
	}
	mutex_unlock(&pool->growing);
	return ok;
}

static void *paracuda_pool_try(struct paracuda_pool *pool, enum paracuda_size size)
{
	struct paracuda_pool_page *page;
	void *piece = NULL;

	spin_lock(&pool->lock);
	page = list_first_entry_or_null(&pool->some[size], struct paracuda_pool_page, node);
	if (page) {
		piece = page->memory + (__ffs64(page->free) << paracuda_shifts[size]);
		page->free &= page->free - 1;
		if (!page->free)
			list_del_init(&page->node);
	}
	spin_unlock(&pool->lock);
	return piece;
}

/* A piece of that size, with anything in it. NULL: no memory. May sleep. */
void *paracuda_pool_take(struct paracuda_pool *pool, enum paracuda_size size)
{
	void *piece;

	do {
		piece = paracuda_pool_try(pool, size);
	} while (!piece && paracuda_pool_grow(pool, size));
	return piece;
}

void paracuda_pool_give(struct paracuda_pool *pool, void *piece)
{
	struct paracuda_pool_page *page = paracuda_pool_page_of(piece);

	spin_lock(&pool->lock);
	if (!page->free)
		list_add(&page->node, &pool->some[page->size]);
	page->free |= BIT_ULL(offset_in_page(piece) >> paracuda_shifts[page->size]);
	spin_unlock(&pool->lock);
}
