// SPDX-License-Identifier: GPL-2.0
/*
 * Chains of channels whose device is away: they are taken out of its queues, and made available
 * again in the queues with which it comes back. What a worker keeps of maps whose chains are back
 * stays as it is: it was saved with the program, as the arena was.
 */

#include "paracuda.h"

/* A chain has been taken out of the queue: no worker has given it back. Under queue->lock. */
static void paracuda_park(struct paracuda_channel *ch, struct paracuda_token *chain)
{
	ch->inflight--;
	switch (chain->type) {
	case PARACUDA_CHAIN_EVENT:
		ch->event_posted = false;
		break;
	case PARACUDA_CHAIN_ARENA:
		break;
	default:
		paracuda_record_give(ch, chain->record);
		chain->record = NULL;
		ch->passing--;
		if (paracuda_stays(chain))
			ch->staying--;
		else
			ch->flying -= chain->pinned;
		list_add_tail(&chain->node, &ch->parked);
	}
}

/* Takes everything out of a queue that ends; chains of a living channel wait. Under its lock. */
void paracuda_queue_park(struct paracuda_queue *q, struct virtqueue *vq)
{
	struct paracuda_channel *ch = q->channel;
	struct paracuda_token *chain;

	if (!ch || ch->dead) {
		paracuda_queue_detach(q, vq);
		return;
	}
	while ((chain = virtqueue_detach_unused_buf(vq)))
		paracuda_park(ch, chain);
}

static struct paracuda_token *paracuda_parked(struct paracuda_channel *ch)
{
	struct paracuda_token *map;

	spin_lock_irq(&ch->queue->lock);
	map = list_first_entry_or_null(&ch->parked, struct paracuda_token, node);
	if (map)
		list_del(&map->node);
	spin_unlock_irq(&ch->queue->lock);
	return map;
}

/* Makes a chain available before programs learn that the device is back. */
static int paracuda_give(struct paracuda_channel *ch, struct paracuda_token *chain)
{
	chain->again = true;
	return paracuda_channel_post(ch, chain);
}

/* Makes a channel's chains available again. A channel that ends has none. */
int paracuda_channel_again(struct paracuda_channel *ch)
{
	struct paracuda_token *map;
	int err = paracuda_give(ch, &ch->arena_chain);

	while (!err && (map = paracuda_parked(ch))) {
		err = paracuda_give(ch, map);
		if (err) {
			spin_lock_irq(&ch->queue->lock);
			list_add(&map->node, &ch->parked);
			spin_unlock_irq(&ch->queue->lock);
		}
	}
	return err == -EIO ? 0 : err;
}

/* The host has nothing of an ending channel any more: what it had, or was to get, is back. */
void paracuda_channel_abandon(struct paracuda_channel *ch)
{
	spin_lock_irq(&ch->queue->lock);
	paracuda_take_all(ch, &ch->returned);
	list_splice_tail_init(&ch->parked, &ch->returned);
	spin_unlock_irq(&ch->queue->lock);
}
