/* SPDX-License-Identifier: GPL-2.0 */
/* Pieces of pages that a channel's worker touches by itself (pool.c). paracuda.h includes it. */
#ifndef PARACUDA_POOL_H
#define PARACUDA_POOL_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/* Sizes of pieces. All pieces of a page have one. */
enum paracuda_size {
	PARACUDA_PIECE_64,
	PARACUDA_PIECE_256,
	PARACUDA_PIECE_512,
	PARACUDA_PIECE_PAGE,
	PARACUDA_PIECES,
};

struct paracuda_pool {
	spinlock_t lock;		/* of pages */
	struct mutex growing;		/* of what follows */
	u64 *directories;		/* where the host finds the pages: physical addresses */
	unsigned int room;		/* for so many directories */
	unsigned int count;		/* of pages */
	struct list_head some[PARACUDA_PIECES];	/* under lock: pages with pieces to take */
};

/* pool.c */
void paracuda_pool_begin(struct paracuda_pool *pool, u64 *directories, unsigned int room);
void paracuda_pool_end(struct paracuda_pool *pool);
void *paracuda_pool_take(struct paracuda_pool *pool, enum paracuda_size size);
void paracuda_pool_give(struct paracuda_pool *pool, void *piece);
unsigned int paracuda_pool_number(const void *piece);

#endif
