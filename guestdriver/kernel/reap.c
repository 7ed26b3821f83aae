// SPDX-License-Identifier: GPL-2.0
/*
 * Channel queues: taking chains back.
 *
 * Interrupts are off while maps come and go and nobody sleeps: then the next system call finds what
 * was returned, or poll does. Otherwise they are on. Then they cost little, since a worker returns
 * chains only to wake somebody, to give up pages, or because it dies.
 *
 * The chain of a map that stays comes back as soon as the worker has taken it. The worker has its
 * pages until it names the map in an EVENT, or returns the ARENA, which is the last that it
 * returns.
 */

#include <linux/virtio_config.h>

#include "paracuda.h"

/* Under queue->lock. */
static bool paracuda_wants_callbacks(const struct paracuda_channel *ch)
{
	return ch->sleepers || !ch->passing;
}

/* The worker has let go of a kept map, or says so. Under queue->lock. */
static void paracuda_take_kept(struct paracuda_channel *ch, u32 id, struct list_head *maps)
{
	struct paracuda_token *map;
	void *entry;

	rcu_read_lock();
	entry = xa_load(&ch->maps, id);
	map = xa_is_value(entry) ? NULL : entry;
	if (map && map->kept) {
		map->kept = false;
		ch->staying--;
		list_move_tail(&map->node, maps);
	}
	rcu_read_unlock();
}

/* The worker has let go of everything. Under queue->lock. */
void paracuda_take_all(struct paracuda_channel *ch, struct list_head *maps)
{
	struct paracuda_token *map;

	ch->over = true;
	list_for_each_entry(map, &ch->kept, node) {
		map->kept = false;
		ch->staying--;
	}
	list_splice_tail_init(&ch->kept, maps);
}

/*
 * Takes what an EVENT says, of which len bytes were written. The host may lie. Under queue->lock.
 */
static void paracuda_take_event(struct paracuda_channel *ch, unsigned int len,
				struct list_head *maps)
{
	const struct paracuda_event_record *record = &ch->exposure.records->event;
	unsigned int i, count = READ_ONCE(record->count);

	if (len < offsetof(struct paracuda_event_record, maps))
		return;
	if (READ_ONCE(record->events) & PARACUDA_EVENT_DEAD)
		paracuda_set_dead(ch);
	len = min_t(unsigned int, len, sizeof(*record));
	len -= offsetof(struct paracuda_event_record, maps);
	for (i = 0; i < min_t(unsigned int, count, len / sizeof(record->maps[0])); i++)
		paracuda_take_kept(ch, READ_ONCE(record->maps[i]), maps);
}

/* The chain of a map is back, and so is the map, unless the worker keeps it. Under queue->lock. */
static void paracuda_take_map(struct paracuda_channel *ch, struct paracuda_token *map,
			      unsigned int len, struct list_head *maps)
{
	ch->passing--;
	if (!paracuda_stays(map)) {
		ch->flying -= map->pinned;
	} else if (len >= sizeof(*map->record) && READ_ONCE(map->record->kept) && !ch->over) {
		map->kept = true;
		maps = &ch->kept;
	} else {
		ch->staying--;
	}
	paracuda_record_give(ch, map->record);
	map->record = NULL;
	list_add_tail(&map->node, maps);
}

/* One chain is back: maps go to a list. Under queue->lock. Returns whether to wake waiters. */
static bool paracuda_take_back(struct paracuda_channel *ch, struct paracuda_token *chain,
			       unsigned int len, struct list_head *maps)
{
	ch->inflight--;
	switch (chain->type) {
	case PARACUDA_CHAIN_EVENT:
		ch->event_posted = false;
		paracuda_take_event(ch, len, maps);
		return true;
	case PARACUDA_CHAIN_ARENA:
		paracuda_set_dead(ch);
		paracuda_take_all(ch, maps);
		return true;
	default:
		paracuda_take_map(ch, chain, len, maps);
		return false;
	}
}

/*
 * Takes back what the worker returned, and sets interrupts on or off. Under queue->lock.
 *
 * No wake-up is lost: the worker writes a slot, then looks for an EVENT. If it finds none, the one
 * that it returned before is made available here later, and after a full barrier (in
 * virtqueue_kick_prepare) the waiters look at their words. If it returns one after we last looked
 * at the used ring, virtqueue_enable_cb() has asked for an interrupt.
 */
unsigned int paracuda_reap(struct paracuda_queue *q, struct virtqueue *vq)
{
	struct paracuda_channel *ch = q->channel;
	unsigned int budget = virtqueue_get_vring_size(vq);
	struct paracuda_token *chain;
	unsigned int len, todo = 0;
	bool wake = false;
	int event;

	do {
		virtqueue_disable_cb(vq);
		while (budget && (chain = virtqueue_get_buf(vq, &len))) {
			wake |= paracuda_take_back(ch, chain, len, &ch->returned);
			budget--;
		}
		if (!budget)	/* no endless loop in an interrupt for a worker that floods us */
			todo |= PARACUDA_AGAIN;
		event = paracuda_post_event(ch, vq);
		if (event < 0)	/* a late EVENT is not lost, as waiters look again then */
			todo |= PARACUDA_AGAIN;
		wake |= event > 0;
		if (virtqueue_kick_prepare(vq))
			todo |= PARACUDA_NOTIFY;
		if (unlikely(virtqueue_is_broken(vq))) {
			paracuda_set_dead(ch);
			todo &= ~PARACUDA_AGAIN;
			wake = true;
			break;
		}
	} while (budget && paracuda_wants_callbacks(ch) && !virtqueue_enable_cb(vq));

	if (wake)
		wake_up_all(&ch->wait);
	if (!list_empty(&ch->returned))
		todo |= PARACUDA_COLLECT;
	return todo;
}

/* A channel queue's callback, in interrupt context. */
void paracuda_queue_done(struct virtqueue *vq)
{
	struct paracuda_device *dev = vq->vdev->priv;
	struct paracuda_queue *q = &dev->queues[vq->index - 1];
	unsigned int todo = 0;
	unsigned long flags;

	spin_lock_irqsave(&q->lock, flags);
	if (q->vq && q->channel) {
		todo = paracuda_reap(q, vq);
		if (todo & PARACUDA_AGAIN)
			paracuda_poll_after(q->channel, 1);
		else if (todo & PARACUDA_COLLECT)
			paracuda_poll_after(q->channel, 0);
	}
	spin_unlock_irqrestore(&q->lock, flags);

	if (todo & PARACUDA_NOTIFY)
		virtqueue_notify(vq);
}

/*
 * Takes everything out of a queue: after CLOSE, if the host has not returned all, or before the
 * queue ends. Maps wait for paracuda_queue_release(). Under queue->lock.
 */
void paracuda_queue_detach(struct paracuda_queue *q, struct virtqueue *vq)
{
	struct paracuda_token *chain;

	while ((chain = virtqueue_detach_unused_buf(vq)))
		paracuda_take_back(q->channel, chain, 0, &q->detached);
}

/* The host is done with what was detached: releases it as if it was returned. Under queue->lock. */
void paracuda_queue_release(struct paracuda_queue *q)
{
	if (q->channel)
		list_splice_tail_init(&q->detached, &q->channel->returned);
}
