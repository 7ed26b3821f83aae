// SPDX-License-Identifier: GPL-2.0
/*
 * Vouchers: they say which pages the mover may copy for a channel's worker.
 *
 * The driver makes a voucher valid once the pages of a map are pinned. The mover counts its
 * requests in the voucher while they use the pages; it reads their list itself, and believes no
 * worker. The driver unpins pages only once it has made the voucher invalid, which it can't while a
 * request is counted. A worker that doesn't lie returns a map after its last request, so nobody
 * waits here. When the host has let go of the channel, counts no longer matter.
 *
 * Nothing here is in memory that a process maps.
 */

#include <linux/io.h>
#include <linux/slab.h>

#include "paracuda.h"

#define PARACUDA_VOUCHERS	(PARACUDA_VOUCHER_PAGES * PARACUDA_VOUCHERS_PER_PAGE)

int paracuda_vouchers_begin(struct paracuda_channel *ch)
{
	BUILD_BUG_ON(sizeof(struct paracuda_voucher) != PARACUDA_SIZEOF_VOUCHER);
	BUILD_BUG_ON(PARACUDA_VOUCHERS_PER_PAGE * sizeof(struct paracuda_voucher) > PAGE_SIZE);
	BUILD_BUG_ON(PARACUDA_VOUCHER_PAGES * sizeof(u64) > PAGE_SIZE);
	BUILD_BUG_ON(PARACUDA_MAX_CHANNELS * sizeof(u64) > PAGE_SIZE);
	BUILD_BUG_ON(offsetof(struct paracuda_token, list) !=
		     offsetofend(struct paracuda_token, header));

	ida_init(&ch->vouchers.numbers);
	ch->vouchers.directory = (u64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	return ch->vouchers.directory ? 0 : -ENOMEM;
}

/* The channel's maps may be copied from now on: it has a queue. */
void paracuda_vouchers_show(struct paracuda_channel *ch)
{
	WRITE_ONCE(ch->dev->vouchers[ch->queue->index], virt_to_phys(ch->vouchers.directory));
}

/* The host has let go of the channel. Before another one gets the queue. */
void paracuda_vouchers_hide(struct paracuda_channel *ch)
{
	WRITE_ONCE(ch->dev->vouchers[ch->queue->index], 0);
	WRITE_ONCE(ch->vouchers.over, true);
}

/* Nobody else has the channel any more. */
void paracuda_vouchers_end(struct paracuda_channel *ch)
{
	u64 *directory = ch->vouchers.directory;
	unsigned int i;

	ida_destroy(&ch->vouchers.numbers);
	for (i = 0; directory && i < PARACUDA_VOUCHER_PAGES; i++)
		if (directory[i])
			free_page((unsigned long)phys_to_virt(directory[i]));
	free_page((unsigned long)directory);
}

/* The voucher of that number, from 0, whose page is allocated if there is none. */
static struct paracuda_voucher *paracuda_voucher_at(struct paracuda_channel *ch, unsigned int n)
{
	u64 *entry = &ch->vouchers.directory[n / PARACUDA_VOUCHERS_PER_PAGE];
	u64 address = READ_ONCE(*entry);
	struct paracuda_voucher *page;

	if (!address) {
		u64 other;

		page = (struct paracuda_voucher *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
		if (!page)
			return NULL;
		address = virt_to_phys(page);
		other = cmpxchg64(entry, 0, address);
		if (other) {	/* another thread was faster */
			free_page((unsigned long)page);
			address = other;
		}
	}
	page = phys_to_virt(address);
	return &page[n % PARACUDA_VOUCHERS_PER_PAGE];
}

/* A number that no map has, from 0. */
static int paracuda_voucher_take(struct paracuda_vouchers *v)
{
	unsigned int n;

	for (;;) {
		n = find_first_zero_bit(v->few, PARACUDA_FEW_VOUCHERS);
		if (n >= PARACUDA_FEW_VOUCHERS)
			break;
		if (!test_and_set_bit(n, v->few))
			return n;
	}
	return ida_alloc_range(&v->numbers, PARACUDA_FEW_VOUCHERS, PARACUDA_VOUCHERS - 1,
			       GFP_KERNEL);
}

static void paracuda_voucher_give(struct paracuda_vouchers *v, unsigned int n)
{
	if (n >= PARACUDA_FEW_VOUCHERS) {
		ida_free(&v->numbers, n);
		return;
	}
	smp_mb__before_atomic();	/* what was done to the voucher comes first */
	clear_bit(n, v->few);
}

/* Vouches for the pages of a map, all of which are pinned. */
int paracuda_vouch(struct paracuda_channel *ch, struct paracuda_token *map)
{
	struct paracuda_voucher *voucher;
	int n;

	n = paracuda_voucher_take(&ch->vouchers);
	if (n < 0)
		return n;
	voucher = paracuda_voucher_at(ch, n);
	if (!voucher) {
		paracuda_voucher_give(&ch->vouchers, n);
		return -ENOMEM;
	}
	map->header.voucher = n + 1;
	map->header.runs = map->runs;
	map->voucher = voucher;
	voucher->map = virt_to_phys(&map->header);
	/* The mover reads all of the above after it has found this. */
	virt_store_release(&voucher->state, PARACUDA_VOUCHER_STATE_VALID);
	return 0;
}

/* Vouches no longer for the pages of a map. False: the mover uses them. */
bool paracuda_unvouch(struct paracuda_channel *ch, struct paracuda_token *map)
{
	const u32 valid = PARACUDA_VOUCHER_STATE_VALID;
	struct paracuda_voucher *voucher = map->voucher;

	if (!voucher)
		return true;
	if (sync_cmpxchg(&voucher->state, valid, 0) != valid) {
		if (!READ_ONCE(ch->vouchers.over))
			return false;
		WRITE_ONCE(voucher->state, 0);
	}
	map->voucher = NULL;
	paracuda_voucher_give(&ch->vouchers, map->header.voucher - 1);
	return true;
}
