// SPDX-License-Identifier: GPL-2.0
/*
 * Vouchers: headers of maps that say which pages the mover may copy for a channel's worker.
 *
 * The driver makes a voucher valid once the pages of a map are pinned. The mover counts its
 * requests in the voucher while they use the pages; it reads their list itself, and believes no
 * worker. The driver unpins pages only once it has made the voucher invalid, which it can't while a
 * request is counted. A worker that doesn't lie returns a map after its last request, so nobody
 * waits here. When the host has let go of the channel, counts no longer matter.
 */

#include "paracuda.h"

/* Vouches for the pages of a map, all of which are pinned. */
void paracuda_vouch(struct paracuda_token *map)
{
	map->vouched = true;
	/* The mover reads all of the header after it has found this. */
	virt_store_release(&map->header->state, PARACUDA_VOUCHER_STATE_VALID);
}

/* Vouches no longer for the pages of a map. False: the mover uses them. */
bool paracuda_unvouch(struct paracuda_channel *ch, struct paracuda_token *map)
{
	const u32 valid = PARACUDA_VOUCHER_STATE_VALID;

	if (!map->vouched)
		return true;
	if (sync_cmpxchg(&map->header->state, valid, 0) != valid) {
		if (!READ_ONCE(ch->exposure.over))
			return false;
		WRITE_ONCE(map->header->state, 0);
	}
	map->vouched = false;
	return true;
}
