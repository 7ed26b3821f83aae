// SPDX-License-Identifier: GPL-2.0
/* Channel queues: making chains available, under the queue's lock. */

#include <linux/virtio_config.h>

#include "paracuda.h"

/* Descriptors that are kept free for EVENT: its header and its record. */
#define PARACUDA_KEEP_EVENT	2U

/* Why a channel that is dead or closed can't be used. */
int paracuda_channel_error(struct paracuda_channel *ch)
{
	return READ_ONCE(ch->dev->gone) ? -ENODEV : -EIO;
}

/* The worker is gone: says so in the arena. Under queue->lock, before a wake-up. */
void paracuda_set_dead(struct paracuda_channel *ch)
{
	WRITE_ONCE(ch->dead, true);
	WRITE_ONCE(ch->header->dead, 1);
}

/* The worker is gone, or the process is. */
void paracuda_channel_die(struct paracuda_channel *ch)
{
	unsigned long flags;

	spin_lock_irqsave(&ch->queue->lock, flags);
	paracuda_set_dead(ch);
	spin_unlock_irqrestore(&ch->queue->lock, flags);
	wake_up_all(&ch->wait);
}

/* Makes a chain available, with room for a record, if there is one. Under queue->lock. */
static int paracuda_add(struct virtqueue *vq, struct paracuda_token *chain, void *record,
			unsigned int bytes)
{
	struct scatterlist out, in, *sgs[] = { &out, &in };
	int err;

	sg_init_one(&out, chain->header, sizeof(*chain->header));
	if (record)
		sg_init_one(&in, record, bytes);
	err = virtqueue_add_sgs(vq, sgs, 1, record ? 1 : 0, chain, GFP_ATOMIC);
	return err == -ENOSPC ? -EAGAIN : err;
}

/* Makes the EVENT chain available, unless it is already; 1 if it wasn't. Under queue->lock. */
int paracuda_post_event(struct paracuda_channel *ch, struct virtqueue *vq)
{
	struct paracuda_event_record *record = &ch->exposure.records->event;
	int err;

	if (ch->event_posted || ch->dead)
		return 0;
	record->events = 0;
	record->count = 0;
	err = paracuda_add(vq, &ch->event, record, sizeof(*record));
	if (err)
		return err;
	ch->event_posted = true;
	ch->inflight++;
	return 1;
}

/*
 * Whether there is room for a map. -EAGAIN: there will be when maps under way are taken, or copied;
 * -ENOSPC: not before a map that stays is given back. Under queue->lock.
 */
int paracuda_queue_room(struct paracuda_channel *ch, struct virtqueue *vq, u32 flags)
{
	if (!paracuda_oneshot(flags) && ch->staying >= PARACUDA_KEPT_MAPS)
		return -ENOSPC;
	return vq->num_free >= PARACUDA_KEEP_EVENT + PARACUDA_CHAIN_MAX ? 0 : -EAGAIN;
}

/* Makes a map available. Under queue->lock. */
static int paracuda_add_map(struct paracuda_channel *ch, struct virtqueue *vq,
			    struct paracuda_token *map)
{
	int err;

	err = paracuda_queue_room(ch, vq, map->flags);
	if (err)
		return err;
	if (paracuda_stays(map)) {
		map->record = paracuda_record_take(ch);
		if (!map->record)
			return -EAGAIN;
	}
	err = paracuda_add(vq, map, map->record, sizeof(*map->record));
	if (err) {
		paracuda_record_give(ch, map->record);
		map->record = NULL;
	}
	return err;
}

/*
 * Makes an ARENA or MAP chain available. -EAGAIN, -ENOSPC: as paracuda_queue_room(). Under
 * queue->lock.
 */
int paracuda_post_locked(struct paracuda_channel *ch, struct virtqueue *vq,
			 struct paracuda_token *chain)
{
	int err;

	if (ch->dead)
		return -EIO;
	err = chain->type == PARACUDA_CHAIN_MAP ? paracuda_add_map(ch, vq, chain) :
						  paracuda_add(vq, chain, NULL, 0);
	if (err)
		return err;
	ch->inflight++;
	if (chain->type != PARACUDA_CHAIN_MAP)
		return 0;
	if (paracuda_stays(chain))
		ch->staying++;
	else
		ch->flying += chain->pinned;
	if (!ch->passing++)
		queue_delayed_work(paracuda_wq, &ch->poll, msecs_to_jiffies(PARACUDA_POLL_MS));
	return 0;
}
