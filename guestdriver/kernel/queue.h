/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Channel queues, and the chains in them (token.c, returned.c, queue.c, reap.c, post.c, park.c,
 * place.c). paracuda.h includes it.
 */
#ifndef PARACUDA_QUEUE_H
#define PARACUDA_QUEUE_H

#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/workqueue.h>

#include "paracuda_ioctl.h"
#include "paracuda_wire.h"

struct paracuda_channel;
struct paracuda_device;

/* A chain on a channel queue: the token that the virtqueue has for it. */
struct paracuda_token {
	struct list_head node;			/* in channel->returned, kept or parked */
	struct rcu_head rcu;
	u32 type;
	u32 flags;				/* MAP: enum paracuda_map_flag */
	u32 id;					/* MAP */
	unsigned long pinned;			/* MAP: pages */
	bool held;				/* MAP: by references (hold.c) */
	bool kept;				/* MAP: in channel->kept; under queue->lock */
	bool again;				/* is made available before programs go on */
	bool vouched;				/* MAP: vouch.c */
	unsigned int runs;
	unsigned int lists;
	struct paracuda_chain_header *header;	/* exposed */
	struct paracuda_map_record *record;	/* the same, of a MAP that stays, in flight */
};

/* Whether it is a map that the worker keeps when its chain is back. */
static inline bool paracuda_stays(const struct paracuda_token *chain)
{
	return chain->type == PARACUDA_CHAIN_MAP && !(chain->flags & PARACUDA_MAP_FLAG_ONESHOT);
}

/*
 * Where an interrupt is raised. Read without a lock. Written under dev->place_lock, or when nobody
 * uses the virtqueues any more.
 */
struct paracuda_place {
	bool placed;			/* on cpu */
	int cpu;
	unsigned long moved;		/* when, in jiffies */
};

/*
 * A channel queue. Lock order: dev->lock, queue->lock, channel->wait.lock.
 *
 * vq is NULL while the device is stopped. It is written under lock, and read under lock; it stays
 * valid to a reader in a section of dev->srcu, and to its own callback.
 * channel is written under dev->lock and lock, and read under either.
 */
struct paracuda_queue {
	struct paracuda_device *dev;
	unsigned int index;		/* of the channel */
	spinlock_t lock;
	struct virtqueue *vq;
	struct paracuda_channel *channel;
	struct list_head detached;	/* under lock: maps, until the host is stopped */
	bool retired;			/* under dev->lock: no longer usable */
	struct paracuda_place interrupt;	/* place.c: if it has its own */
};

/* What to do after paracuda_reap(), without the lock. */
#define PARACUDA_NOTIFY		1	/* kick the worker */
#define PARACUDA_COLLECT	2	/* release the returned maps */
#define PARACUDA_AGAIN		4	/* more was returned than a round takes, or no memory */

/* token.c */
int paracuda_token_init(struct paracuda_channel *ch, struct paracuda_token *chain, u32 type);
int paracuda_token_append(struct paracuda_channel *ch, struct paracuda_token *chain,
			  struct page *page);
struct paracuda_run *paracuda_token_run(struct paracuda_token *chain, unsigned int i);
void paracuda_token_end(struct paracuda_channel *ch, struct paracuda_token *chain);

/* returned.c */
void paracuda_map_free(struct paracuda_channel *ch, struct paracuda_token *map);
void paracuda_map_collect(struct paracuda_channel *ch, unsigned long pages);
void paracuda_poll_later(struct paracuda_channel *ch);
void paracuda_poll_after(struct paracuda_channel *ch, unsigned long delay);
#ifdef CONFIG_UML
void paracuda_let_go(struct page *page, unsigned long count, bool dirty);
#else
static inline void paracuda_let_go(struct page *page, unsigned long count, bool dirty)
{
}
#endif

/* queue.c */
int paracuda_channel_error(struct paracuda_channel *ch);
void paracuda_set_dead(struct paracuda_channel *ch);
void paracuda_channel_die(struct paracuda_channel *ch);
int paracuda_post_event(struct paracuda_channel *ch, struct virtqueue *vq);
int paracuda_queue_room(struct paracuda_channel *ch, struct virtqueue *vq, u32 flags);
int paracuda_post_locked(struct paracuda_channel *ch, struct virtqueue *vq,
			 struct paracuda_token *chain);

/* reap.c */
void paracuda_take_all(struct paracuda_channel *ch, struct list_head *maps);
unsigned int paracuda_reap(struct paracuda_queue *q, struct virtqueue *vq);
void paracuda_queue_done(struct virtqueue *vq);
void paracuda_queue_detach(struct paracuda_queue *q, struct virtqueue *vq);
void paracuda_queue_release(struct paracuda_queue *q);

/* post.c */
int paracuda_channel_room(struct paracuda_channel *ch, u32 flags);
void paracuda_channel_reap(struct paracuda_channel *ch, unsigned long pages);
void paracuda_channel_poll(struct work_struct *work);
int paracuda_channel_post(struct paracuda_channel *ch, struct paracuda_token *chain);
int paracuda_channel_start(struct paracuda_channel *ch);
int paracuda_channel_kick(struct paracuda_channel *ch);
void paracuda_sleepers_add(struct paracuda_channel *ch, int n);

/* park.c */
void paracuda_queue_park(struct paracuda_queue *q, struct virtqueue *vq);
int paracuda_channel_again(struct paracuda_channel *ch);
void paracuda_channel_abandon(struct paracuda_channel *ch);

/* place.c */
void paracuda_place_begin(struct paracuda_device *dev);
void paracuda_place(struct paracuda_channel *ch);
void paracuda_unplace(struct paracuda_device *dev);

#endif
