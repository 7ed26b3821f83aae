// SPDX-License-Identifier: GPL-2.0
/* What system calls, and the poll, do with a channel's queue: they post, reap and kick. */

#include <linux/sizes.h>
#include <linux/virtio_config.h>

#include "paracuda.h"

/* How many pages are released for each one that is pinned, and how many at least. */
#define PARACUDA_COLLECT_RATIO	2UL
#define PARACUDA_COLLECT_LEAST	(SZ_4M >> PAGE_SHIFT)

/*
 * paracuda_reap() for a system call. *room becomes what paracuda_queue_room() says for a map of
 * such flags.
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
		*room = paracuda_queue_room(ch, vq, flags);
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

/* Makes an ARENA or MAP chain available. -EAGAIN, -ENOSPC: as paracuda_queue_room(). */
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
	vq = READ_ONCE(dev->absence.away) && !chain->again ? NULL : q->vq;
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
