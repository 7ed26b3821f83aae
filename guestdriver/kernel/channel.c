// SPDX-License-Identifier: GPL-2.0
/* The life of a channel. */

#include <linux/capability.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>

#include "paracuda.h"

/* A system call begins to use the channel. Fails when it is being closed. */
bool paracuda_channel_enter(struct paracuda_channel *ch)
{
	return refcount_inc_not_zero(&ch->users);
}

void paracuda_channel_leave(struct paracuda_channel *ch)
{
	if (refcount_dec_and_test(&ch->users))
		queue_work(paracuda_wq, &ch->finish);
}

/*
 * Begins to close the channel, unless that was done. It never blocks, since a killed process must
 * not wait for the host. The caller holds a reference, or dev->lock with queue->channel set.
 */
void paracuda_channel_close(struct paracuda_channel *ch)
{
	if (test_and_set_bit(0, &ch->closing))
		return;
	paracuda_channel_die(ch);
	paracuda_channel_leave(ch);
}

static void paracuda_channel_release(struct kref *ref)
{
	struct paracuda_channel *ch = container_of(ref, struct paracuda_channel, ref);

	paracuda_arena_free(&ch->arena);
	paracuda_expose_end(ch);
	xa_destroy(&ch->maps);
	mmdrop(ch->mm);
	paracuda_arena_uncharge(ch->dev, ch->user);
	paracuda_user_put(ch->dev, ch->user);
	paracuda_device_put(ch->dev);
	kfree(ch);
}

void paracuda_channel_put(struct paracuda_channel *ch)
{
	kref_put(&ch->ref, paracuda_channel_release);
}

/* Whether the channel's user has its share already. 1: it will soon have less. Under dev->lock. */
static int paracuda_claim_share(struct paracuda_device *dev, struct paracuda_channel *ch)
{
	unsigned int i, has = 0, ending = 0, share = paracuda_share(dev->channels);
	struct paracuda_channel *other;

	if (ch->privileged || share >= dev->channels)
		return 0;
	for (i = 0; i < dev->channels; i++) {
		other = dev->queues[i].channel;
		if (other && other->user == ch->user) {
			has++;
			ending += test_bit(0, &other->closing);
		}
	}
	if (has < share)
		return 0;
	return ending ? 1 : -EDQUOT;
}

/* Gives the channel a free queue. Returns 1 if there is none now but may be soon. */
static int paracuda_claim_once(struct paracuda_device *dev, struct paracuda_channel *ch,
			       unsigned int *freed)
{
	struct paracuda_settings settings;
	struct paracuda_queue *q;
	unsigned int i;
	int share, err;

	mutex_lock(&dev->lock);
	*freed = dev->freed;
	share = paracuda_claim_share(dev, ch);
	err = share ? share : -EBUSY;
	for (i = 0; i < dev->channels && !dev->gone && !share; i++) {
		q = &dev->queues[i];
		if (q->retired)
			continue;
		if (q->channel) {
			if (test_bit(0, &q->channel->closing))
				err = 1;
			continue;
		}
		kref_get(&ch->ref);
		atomic_inc(&dev->busy);
		ch->queue = q;
		spin_lock_irq(&q->lock);
		q->channel = ch;
		spin_unlock_irq(&q->lock);
		/* From here on paracuda_settings_work() finds the channel. */
		paracuda_settings_get(dev, &settings);
		paracuda_settings_publish(ch, &settings);
		err = 0;
		break;
	}
	if (dev->gone)
		err = -ENODEV;
	mutex_unlock(&dev->lock);
	return err;
}

static int paracuda_claim(struct paracuda_device *dev, struct paracuda_channel *ch)
{
	long left = PARACUDA_CLAIM_TIMEOUT;
	unsigned int freed;
	int err;

	for (;;) {
		err = paracuda_claim_once(dev, ch, &freed);
		if (err <= 0)
			return err;
		if (!left)
			return -EBUSY;
		left = wait_event_killable_timeout(dev->wait, READ_ONCE(dev->freed) != freed ||
						   READ_ONCE(dev->gone), left);
		if (left < 0)
			return -EINTR;
	}
}

/* Gives the queue back. A retired queue is never used again. */
static void paracuda_unclaim(struct paracuda_channel *ch, bool retire)
{
	struct paracuda_device *dev = ch->dev;
	struct paracuda_queue *q = ch->queue;

	mutex_lock(&dev->lock);
	spin_lock_irq(&q->lock);
	q->channel = NULL;
	spin_unlock_irq(&q->lock);
	q->retired |= retire;
	WRITE_ONCE(dev->freed, dev->freed + 1);
	mutex_unlock(&dev->lock);
	wake_up_all(&dev->wait);
}

/* Waits until the device is stopped, or has been stopped since that era. */
static void paracuda_await_stop(struct paracuda_device *dev, unsigned int era)
{
	wait_event_idle(dev->wait, READ_ONCE(dev->stopped) || READ_ONCE(dev->era) != era);
}

/* Sends CLOSE and waits for the answer, or for the stop of the device. True: the host is done. */
static bool paracuda_close_host(struct paracuda_channel *ch)
{
	struct paracuda_request *req = &ch->close;

	req->out.type = PARACUDA_CONTROL_CLOSE;
	req->out.channel = ch->queue->index;
	return paracuda_control_order(ch->dev, req);
}

/* Whether the host may still touch the channel's memory: it has opened it, or may do so. */
static bool paracuda_is_open(struct paracuda_channel *ch)
{
	struct paracuda_request *req = &ch->open;

	if (!req->posted)
		return false;
	return !paracuda_control_await(ch->dev, req) || req->status == PARACUDA_STATUS_OK;
}

/*
 * After CLOSE everything must be back. What isn't is freed all the same, since the host may not
 * touch it any more, but then the queue can't be used again. Returns whether that is so. If the
 * device is being stopped at the same time, stop takes the chains back.
 */
static bool paracuda_clean_queue(struct paracuda_channel *ch)
{
	struct paracuda_queue *q = ch->queue;
	struct paracuda_device *dev = ch->dev;
	unsigned int lost = 0, era = READ_ONCE(dev->era);
	bool stopping;
	int idx;

	paracuda_channel_reap(ch, ULONG_MAX);
	idx = srcu_read_lock(&dev->srcu);
	spin_lock_irq(&q->lock);
	stopping = !q->vq;
	if (!stopping) {
		lost = ch->inflight;
		if (lost) {
			paracuda_queue_detach(q, q->vq);
			paracuda_queue_release(q);
		}
	}
	spin_unlock_irq(&q->lock);
	srcu_read_unlock(&dev->srcu, idx);

	if (stopping)
		paracuda_await_stop(dev, era);
	if (lost)
		dev_err(&dev->vdev->dev,
			"channel %u: device kept %u chains at CLOSE: channel given up\n",
			q->index, lost);
	return lost;
}

/* Makes the host let go of a channel. Returns whether its queue can't be used again. */
static bool paracuda_close_all(struct paracuda_channel *ch)
{
	struct paracuda_device *dev = ch->dev;
	unsigned int era;
	bool stopped;

	/* It must first be known whether a device that has come is this one. */
	mutex_lock(&dev->absence.coming);
	era = READ_ONCE(dev->era);
	stopped = READ_ONCE(dev->stopped);
	mutex_unlock(&dev->absence.coming);
	if (stopped || !paracuda_is_open(ch))
		return false;
	if (paracuda_close_host(ch))
		return paracuda_clean_queue(ch);
	/*
	 * Only a reset makes sure that the host touches nothing. A device that goes away is stopped
	 * anyhow, and doesn't get dead channels back.
	 */
	if (!READ_ONCE(dev->absence.away) && READ_ONCE(dev->era) == era)
		paracuda_fail(dev);
	paracuda_await_stop(dev, era);
	return false;
}

/* Ends a channel that nobody in the guest uses any more. */
static void paracuda_channel_finish(struct work_struct *work)
{
	struct paracuda_channel *ch = container_of(work, struct paracuda_channel, finish);
	struct paracuda_device *dev = ch->dev;
	bool retire = paracuda_close_all(ch);

	paracuda_channel_abandon(ch);
	paracuda_expose_hide(ch);
	paracuda_unclaim(ch, retire);
	cancel_delayed_work_sync(&ch->poll);
	paracuda_map_collect(ch, ULONG_MAX);
	atomic_dec(&dev->busy);
	wake_up_all(&dev->wait);
	paracuda_channel_put(ch);
}

/* Allocates a channel of the caller's, counted for its user. */
static struct paracuda_channel *paracuda_channel_new(struct paracuda_device *dev)
{
	bool privileged = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	struct paracuda_channel *ch;
	struct paracuda_user *user;
	int err = -ENOMEM;

	user = paracuda_user_get(dev);
	if (!user)
		return ERR_PTR(err);
	ch = kzalloc(sizeof(*ch), GFP_KERNEL_ACCOUNT);
	if (ch)
		err = paracuda_arena_charge(dev, user, privileged);
	if (err) {
		kfree(ch);
		paracuda_user_put(dev, user);
		return ERR_PTR(err);
	}
	ch->user = user;
	ch->privileged = privileged;
	return ch;
}

static struct paracuda_channel *paracuda_channel_alloc(struct paracuda_device *dev,
						       unsigned long arena_bytes)
{
	struct paracuda_channel *ch = paracuda_channel_new(dev);

	if (IS_ERR(ch))
		return ch;
	kref_init(&ch->ref);
	refcount_set(&ch->users, 2);	/* one of OPEN itself */
	kref_get(&dev->ref);
	ch->dev = dev;
	ch->mm = current->mm;
	mmgrab(ch->mm);
	ch->files = current->files;
	INIT_WORK(&ch->finish, paracuda_channel_finish);
	INIT_DELAYED_WORK(&ch->poll, paracuda_channel_poll);
	xa_init_flags(&ch->maps, XA_FLAGS_ALLOC1);
	init_waitqueue_head(&ch->wait);
	INIT_LIST_HEAD(&ch->kept);
	INIT_LIST_HEAD(&ch->returned);
	INIT_LIST_HEAD(&ch->parked);

	if (paracuda_expose_begin(ch) ||
	    paracuda_arena_alloc(&ch->arena, arena_bytes) ||
	    paracuda_arena_chain(ch) ||
	    paracuda_token_init(ch, &ch->event, PARACUDA_CHAIN_EVENT)) {
		paracuda_channel_put(ch);
		return ERR_PTR(-ENOMEM);
	}
	ch->header = page_address(ch->arena.pages[0]);
	return ch;
}

/* Asks the host for a worker, and waits for it. gpu: the one that the program uses first. */
static int paracuda_open_host(struct paracuda_channel *ch, u32 gpu)
{
	struct paracuda_device *dev = ch->dev;
	struct paracuda_request *req = &ch->open;
	char comm[TASK_COMM_LEN];
	int err;

	BUILD_BUG_ON(sizeof(req->out.comm) < TASK_COMM_LEN);
	req->out.type = PARACUDA_CONTROL_OPEN;
	req->out.number = gpu;
	req->out.channel = ch->queue->index;
	req->out.pid = task_tgid_nr(current);
	get_task_comm(comm, current->group_leader);
	memcpy(req->out.comm, comm, sizeof(comm));

	err = paracuda_control_ask(dev, req, &dev->gone, PARACUDA_OPEN_TIMEOUT);
	if (err == -ETIMEDOUT)
		return -EHOSTDOWN;
	if (!err && READ_ONCE(dev->gone))
		return -ENODEV;
	return err ? err : paracuda_status_errno(req->status);
}

/* Returns a channel with a worker and a reference to it. */
struct paracuda_channel *paracuda_channel_open(struct paracuda_device *dev,
					       unsigned long arena_bytes, u32 gpu)
{
	struct paracuda_channel *ch;
	int err;

	err = paracuda_await_settled(dev);
	if (err)
		return ERR_PTR(err);
	ch = paracuda_channel_alloc(dev, arena_bytes);
	if (IS_ERR(ch))
		return ch;
	err = paracuda_claim(dev, ch);
	if (err)
		goto put;

	paracuda_expose_show(ch);
	err = paracuda_open_host(ch, gpu);
	if (!err)
		err = paracuda_channel_start(ch);
	if (err == -EIO)
		err = paracuda_channel_error(ch);
	if (err)
		paracuda_channel_close(ch);
	paracuda_channel_leave(ch);
	if (!err)
		return ch;
put:
	paracuda_channel_put(ch);
	return ERR_PTR(err);
}
