// SPDX-License-Identifier: GPL-2.0
/*
 * What a channel exposes to its worker: pages that it reads, with headers of chains and lists of
 * runs, and one that it writes to, with records. They hold nothing else of the kernel's.
 *
 * Nothing here is in memory that a process maps.
 */

#include <linux/io.h>

#include "paracuda.h"

int paracuda_expose_begin(struct paracuda_channel *ch)
{
	struct paracuda_exposure *e = &ch->exposure;

	BUILD_BUG_ON(sizeof(struct paracuda_chain_header) != PARACUDA_SIZEOF_CHAIN_HEADER);
	BUILD_BUG_ON(sizeof(struct paracuda_event_record) != PARACUDA_SIZEOF_EVENT_RECORD);
	BUILD_BUG_ON(sizeof(struct paracuda_map_record) != PARACUDA_SIZEOF_MAP_RECORD);
	BUILD_BUG_ON(sizeof(struct paracuda_exposed) != PARACUDA_SIZEOF_EXPOSED);
	BUILD_BUG_ON(sizeof(struct paracuda_exposed) + PARACUDA_EXPOSED_LISTS * sizeof(u64) >
		     PAGE_SIZE);
	BUILD_BUG_ON(PARACUDA_MAX_CHANNELS * sizeof(u64) > PAGE_SIZE);

	e->root = (struct paracuda_exposed *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	e->records = (struct paracuda_records *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!e->root || !e->records)
		return -ENOMEM;
	paracuda_pool_begin(&e->headers, e->root->headers, ARRAY_SIZE(e->root->headers));
	paracuda_pool_begin(&e->lists, (u64 *)(e->root + 1), PARACUDA_EXPOSED_LISTS);
	e->root->records = virt_to_phys(e->records);
	return 0;
}

/* The host may look for them from now on: the channel has a queue. */
void paracuda_expose_show(struct paracuda_channel *ch)
{
	ch->exposure.root->arena = virt_to_phys(ch->arena_chain.header);
	/* The host reads the page after it has found its address. */
	virt_store_release(&ch->dev->exposed[ch->queue->index], virt_to_phys(ch->exposure.root));
}

/* The host has let go of the channel. Before another one gets the queue. */
void paracuda_expose_hide(struct paracuda_channel *ch)
{
	WRITE_ONCE(ch->dev->exposed[ch->queue->index], 0);
	WRITE_ONCE(ch->exposure.over, true);
}

/* Nobody else has the channel any more. */
void paracuda_expose_end(struct paracuda_channel *ch)
{
	struct paracuda_exposure *e = &ch->exposure;

	paracuda_pool_end(&e->headers);
	paracuda_pool_end(&e->lists);
	free_page((unsigned long)e->records);
	free_page((unsigned long)e->root);
}

/* The header of a chain, with its type and number. NULL: no memory. */
struct paracuda_chain_header *paracuda_header_take(struct paracuda_channel *ch, u32 type)
{
	struct paracuda_chain_header *header;

	BUILD_BUG_ON(PARACUDA_HEADERS_PER_PAGE * sizeof(*header) > PAGE_SIZE);
	header = paracuda_pool_take(&ch->exposure.headers, PARACUDA_PIECE_64);
	if (!header)
		return NULL;
	memset(header, 0, sizeof(*header));
	header->type = type;
	header->voucher = 1 + paracuda_pool_number(header) * PARACUDA_HEADERS_PER_PAGE +
			  offset_in_page(header) / sizeof(*header);
	return header;
}

/* A record for a map that stays. NULL: all are in use. Under queue->lock. */
struct paracuda_map_record *paracuda_record_take(struct paracuda_channel *ch)
{
	struct paracuda_exposure *e = &ch->exposure;
	unsigned int n = find_first_zero_bit(e->taken, PARACUDA_MAP_RECORDS);

	if (n >= PARACUDA_MAP_RECORDS)
		return NULL;
	__set_bit(n, e->taken);
	e->records->maps[n].kept = 0;
	return &e->records->maps[n];
}

/* Takes it back, if there is one. Under queue->lock. */
void paracuda_record_give(struct paracuda_channel *ch, struct paracuda_map_record *record)
{
	if (record)
		__clear_bit(record - ch->exposure.records->maps, ch->exposure.taken);
}
