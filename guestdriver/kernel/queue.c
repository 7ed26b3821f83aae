// SPDX-License-Identifier: GPL-2.0
/*
 * Channel queues: making chains available and taking them back.
 *
 * Interrupts are off while maps come and go and nobody sleeps: then the next system call finds what
 * was returned, or poll does. Otherwise they are on. Then they cost little, since a worker returns
 * chains only to wake somebody, to give up pages, or because it dies.
 *
 * The chain of a map that stays comes back as soon as the worker has taken it. The worker has its
 * pages until it names the map in an EVENT, or returns the ARENA, which is the last that it
 * returns.
 */

#include <linux/sizes.h>
#include <linux/virtio_config.h>

#include "paracuda.h"

/* What to do after paracuda_reap(), without the lock. */
#define PARACUDA_NOTIFY		1	/* kick the worker */
#define PARACUDA_COLLECT	2	/* release the returned maps */
#define PARACUDA_AGAIN		4	/* more was returned than a round takes, or no memory */

/* Descriptors that are kept free for EVENT: its header and its record. */
#define PARACUDA_KEEP_EVENT	2U

/* How many pages are released for each one that is pinned, and how many at least. */
#define PARACUDA_COLLECT_RATIO	2UL
#define PARACUDA_COLLECT_LEAST	(SZ_4M >> PAGE_SHIFT)

/* Why a channel that is dead or closed can't be used. */
int paracuda_channel_error(struct paracuda_channel *ch)
{
	return READ_ONCE(ch->dev->gone) ? -ENODEV : -EIO;
}

/* Under queue->lock. */
static bool paracuda_wants_callbacks(const struct paracuda_channel *ch)
{
	return ch->sleepers || !ch->passing;
}

/* The worker is gone: says so in the arena. Under queue->lock, before a wake-up. */
static void paracuda_set_dead(struct paracuda_channel *ch)
{
	WRITE_ONCE(ch->dead, true);
	WRITE_ONCE(ch->header->dead, 1);
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
static int paracuda_post_event(struct paracuda_channel *ch, struct virtqueue *vq)
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
static unsigned int paracuda_reap(struct paracuda_queue *q, struct virtqueue *vq)
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

static void paracuda_poll_after(struct paracuda_channel *ch, unsigned long delay)
{
	mod_delayed_work(paracuda_wq, &ch->poll, delay);
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
 * Whether there is room for a map. -EAGAIN: there will be when maps under way are taken, or copied;
 * -ENOSPC: not before a map that stays is given back. Under queue->lock.
 */
static int paracuda_room(struct paracuda_channel *ch, struct virtqueue *vq, u32 flags)
{
	if (!paracuda_oneshot(flags) && ch->staying >= PARACUDA_KEPT_MAPS)
		return -ENOSPC;
	return vq->num_free >= PARACUDA_KEEP_EVENT + PARACUDA_CHAIN_MAX ? 0 : -EAGAIN;
}

/*
 * paracuda_reap() for a system call. *room becomes what paracuda_room() says for a map of such
 * flags.
 */
static unsigned int paracuda_reap_queue(struct paracuda_channel *ch, u32 flags, int *room)
{
	struct paracuda_queue *q = ch->queue;
	struct paracuda_device *dev = ch->dev;
	unsigned int todo = 0;
	struct virtqueue *vq;
	int idx;

	idx = srcu_read_lock(&dev->srcu);
	spin_lock_irq(&q->lock);
	vq = q->vq;
	if (vq && q->channel == ch) {
		todo = paracuda_reap(q, vq);
		if (todo & PARACUDA_AGAIN)
			paracuda_poll_after(ch, 1);
		*room = paracuda_room(ch, vq, flags);
	}
	spin_unlock_irq(&q->lock);

	if (todo & PARACUDA_NOTIFY)
		virtqueue_notify(vq);
	srcu_read_unlock(&dev->srcu, idx);
	return todo;
}

/* Takes back what was returned, and says whether there is room for a map: 0, -EAGAIN or -ENOSPC. */
int paracuda_channel_room(struct paracuda_channel *ch, u32 flags)
{
	int room = -EAGAIN;

	paracuda_reap_queue(ch, flags, &room);
	return room;
}

/* Takes back what was returned, and releases so many pages of it. */
void paracuda_channel_reap(struct paracuda_channel *ch, unsigned long pages)
{
	int room;

	if (paracuda_reap_queue(ch, 0, &room) & PARACUDA_COLLECT && pages)
		paracuda_map_collect(ch, pages);
}

/* Looks for returned maps as long as some are outstanding, and releases those that came. */
void paracuda_channel_poll(struct work_struct *work)
{
	struct paracuda_channel *ch = container_of(work, struct paracuda_channel, poll.work);
	struct paracuda_queue *q = ch->queue;

	paracuda_channel_reap(ch, 0);
	paracuda_map_collect(ch, ULONG_MAX);

	spin_lock_irq(&q->lock);
	if (ch->passing && !ch->dead)
		paracuda_poll_later(ch);
	spin_unlock_irq(&q->lock);
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

/* Makes a map available. Under queue->lock. */
static int paracuda_add_map(struct paracuda_channel *ch, struct virtqueue *vq,
			    struct paracuda_token *map)
{
	int err;

	err = paracuda_room(ch, vq, map->flags);
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

static int paracuda_post_locked(struct paracuda_channel *ch, struct virtqueue *vq,
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

/* Makes an ARENA or MAP chain available. -EAGAIN, -ENOSPC: as paracuda_room(). */
int paracuda_channel_post(struct paracuda_channel *ch, struct paracuda_token *chain)
{
	struct paracuda_queue *q = ch->queue;
	struct paracuda_device *dev = ch->dev;
	unsigned long pinned = chain->pinned;	/* once posted the chain isn't the caller's */
	unsigned int todo = 0;
	unsigned long busy = 0;
	struct virtqueue *vq;
	int idx, err = -ENODEV;

	idx = srcu_read_lock(&dev->srcu);
	spin_lock_irq(&q->lock);
	vq = READ_ONCE(dev->away) && !chain->again ? NULL : q->vq;
	if (vq) {
		busy = ch->flying;
		err = paracuda_post_locked(ch, vq, chain);
		todo = paracuda_reap(q, vq);	/* kicks, and sets interrupts on or off */
		busy = min3(busy, ch->flying, PARACUDA_COLLECT_RATIO * pinned);
		if (todo & PARACUDA_AGAIN)
			paracuda_poll_after(ch, 1);
		else if (todo & PARACUDA_COLLECT && busy < PARACUDA_COLLECT_LEAST)
			paracuda_poll_later(ch);
	}
	spin_unlock_irq(&q->lock);

	if (todo & PARACUDA_NOTIFY)
		virtqueue_notify(vq);
	srcu_read_unlock(&dev->srcu, idx);

	/*
	 * Releases enough to keep up, but no more than the device copies meanwhile: the command
	 * that needs the chain comes after this. What isn't worth a round is left to the poll.
	 */
	if (todo & PARACUDA_COLLECT && busy >= PARACUDA_COLLECT_LEAST)
		paracuda_map_collect(ch, busy);
	return err;
}

/* Hands the arena to a worker that has just started, and EVENT with it. */
int paracuda_channel_start(struct paracuda_channel *ch)
{
	return paracuda_channel_post(ch, &ch->arena_chain);
}

int paracuda_channel_kick(struct paracuda_channel *ch)
{
	struct paracuda_device *dev = ch->dev;
	struct virtqueue *vq;
	int idx;

	idx = srcu_read_lock(&dev->srcu);
	vq = READ_ONCE(ch->queue->vq);
	if (vq)
		virtqueue_notify(vq);
	srcu_read_unlock(&dev->srcu, idx);

	if (READ_ONCE(ch->passing) || !list_empty_careful(&ch->returned))
		paracuda_channel_reap(ch, ULONG_MAX);
	return READ_ONCE(ch->dead) ? paracuda_channel_error(ch) : 0;
}

void paracuda_sleepers_add(struct paracuda_channel *ch, int n)
{
	spin_lock_irq(&ch->queue->lock);
	ch->sleepers += n;
	spin_unlock_irq(&ch->queue->lock);
	paracuda_channel_reap(ch, ULONG_MAX);
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
