// SPDX-License-Identifier: GPL-2.0
/* The control queue. */

#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/virtio_config.h>

#include "paracuda.h"

static unsigned int paracuda_answer_seconds = 30;
module_param_named(answer_seconds, paracuda_answer_seconds, uint, 0644);
MODULE_PARM_DESC(answer_seconds,
		 "Seconds without an answer after which the device counts as gone (30)");

/* A device that ought to answer at once counts as gone after this time. */
long paracuda_answer_timeout(void)
{
	return (long)clamp(READ_ONCE(paracuda_answer_seconds), 1U, 3600U) * HZ;
}

int paracuda_status_errno(u32 status)
{
	switch (status) {
	case PARACUDA_STATUS_OK:
		return 0;
	case PARACUDA_STATUS_BUSY:
		return -EBUSY;
	case PARACUDA_STATUS_NO_WORKER:
		return -EHOSTDOWN;
	case PARACUDA_STATUS_NO_DEVICE:
		return -ENXIO;
	default:	/* BAD_REQUEST, BAD_VERSION, and what no device should say */
		return -EPROTO;
	}
}

/* How many bytes an answer has. */
static size_t paracuda_request_room(const struct paracuda_request *req)
{
	bool settings = req->out.type == PARACUDA_CONTROL_HELLO ||
			req->out.type == PARACUDA_CONTROL_SETTINGS;

	return sizeof(req->in) + (settings ? sizeof(req->settings) : 0);
}

static void paracuda_control_reap(struct paracuda_device *dev, struct virtqueue *vq)
{
	struct paracuda_request *req;
	unsigned int len;

	while ((req = virtqueue_get_buf(vq, &len))) {
		if (req != &dev->watch)
			dev->asked--;
		req->status = PARACUDA_STATUS_BAD_REQUEST;
		if (len >= sizeof(req->in))
			req->status = READ_ONCE(req->in.status);
		if (req->status == PARACUDA_STATUS_OK && len < paracuda_request_room(req))
			req->status = PARACUDA_STATUS_BAD_REQUEST;
		req->number = READ_ONCE(req->in.number);
		/* Pairs with paracuda_answered(). */
		smp_store_release(&req->answered, true);
		if (req == &dev->watch)
			queue_work(paracuda_wq, &dev->settings_work);
	}
}

/* Looks for answers, and again a little later while some are outstanding. */
static void paracuda_control_look(struct paracuda_device *dev)
{
	struct virtqueue *vq;
	unsigned long flags;

	spin_lock_irqsave(&dev->control_lock, flags);
	vq = dev->control;
	if (vq) {
		do {
			virtqueue_disable_cb(vq);
			paracuda_control_reap(dev, vq);
		} while (!virtqueue_enable_cb(vq));
		if (dev->asked)
			queue_delayed_work(paracuda_wq, &dev->control_poll, PARACUDA_CONTROL_POLL);
		if (unlikely(virtqueue_is_broken(vq)))
			paracuda_fail(dev);
	}
	spin_unlock_irqrestore(&dev->control_lock, flags);

	wake_up_all(&dev->wait);
}

/* The control queue's callback, in interrupt context. */
void paracuda_control_done(struct virtqueue *vq)
{
	paracuda_control_look(vq->vdev->priv);
}

/*
 * Polls since interrupts may get lost in User Mode Linux up to 7.2: one that comes as a processor
 * goes idle is handled when that next wakes up (scripts/uml-idle.patch). A program would wait until
 * its request is given up.
 */
void paracuda_control_poll(struct work_struct *work)
{
	paracuda_control_look(container_of(work, struct paracuda_device, control_poll.work));
}

/*
 * Sends a request, without waiting. -ENOSPC: the queue is full; -ENODEV: the device is stopped, or
 * soon will be.
 */
int paracuda_control_post(struct paracuda_device *dev, struct paracuda_request *req)
{
	struct scatterlist out, in, *sgs[] = { &out, &in };
	struct virtqueue *vq;
	unsigned long flags;
	bool notify = false;
	int idx, err = -ENODEV;

	sg_init_one(&out, &req->out, sizeof(req->out));
	BUILD_BUG_ON(offsetof(struct paracuda_request, settings) !=
		     offsetofend(struct paracuda_request, in));
	sg_init_one(&in, &req->in, paracuda_request_room(req));

	idx = srcu_read_lock(&dev->srcu);
	spin_lock_irqsave(&dev->control_lock, flags);
	vq = dev->control;
	if (vq)
		err = virtqueue_add_sgs(vq, sgs, 1, 1, req, GFP_ATOMIC);
	if (!err) {
		req->posted = true;
		req->era = READ_ONCE(dev->era);
		if (req != &dev->watch) {	/* which may take for ever */
			dev->asked++;
			queue_delayed_work(paracuda_wq, &dev->control_poll, PARACUDA_CONTROL_POLL);
		}
		notify = virtqueue_kick_prepare(vq);
	}
	spin_unlock_irqrestore(&dev->control_lock, flags);

	if (notify)
		virtqueue_notify(vq);
	srcu_read_unlock(&dev->srcu, idx);

	if (err == -EIO) {
		paracuda_fail(dev);
		err = -ENODEV;
	} else if (err == -ENOMEM) {
		err = -ENOSPC;
	}
	return err;
}

/* The same, and waits for room in the queue. -EINTR: the process is killed, if that may end it. */
static int paracuda_control_insist(struct paracuda_device *dev, struct paracuda_request *req,
				   bool killable)
{
	int err;

	while ((err = paracuda_control_post(dev, req)) == -ENOSPC) {
		if (killable)
			schedule_timeout_killable(HZ / 50);
		else
			schedule_timeout_idle(HZ / 50);
		if (killable && fatal_signal_pending(current))
			return -EINTR;
	}
	return err;
}

/* Whether a request will never be answered, since the device was stopped after it was sent. */
static bool paracuda_forgotten(struct paracuda_device *dev, const struct paracuda_request *req)
{
	return READ_ONCE(dev->era) != req->era;
}

/*
 * Sends a request for a process and waits for the answer, at most for timeout, and until *over, a
 * field of dev. 0: it is there; -EINTR: the process is killed; -ENODEV: it is over, or the device
 * was stopped; -ETIMEDOUT.
 */
int paracuda_control_ask(struct paracuda_device *dev, struct paracuda_request *req,
			 const bool *over, long timeout)
{
	long left;
	int err;

	err = paracuda_control_insist(dev, req, true);
	if (err)
		return err;
	left = wait_event_killable_timeout(dev->wait, paracuda_answered(req) || READ_ONCE(*over) ||
					   paracuda_forgotten(dev, req), timeout);
	if (left < 0)
		return -EINTR;
	if (paracuda_answered(req))
		return 0;
	return left ? -ENODEV : -ETIMEDOUT;
}

/*
 * Waits for the answer to what was sent, or for the stop of the device. Returns whether there is an
 * answer.
 */
bool paracuda_control_await(struct paracuda_device *dev, struct paracuda_request *req)
{
	wait_event_idle(dev->wait, paracuda_answered(req) || paracuda_forgotten(dev, req));
	return paracuda_answered(req);
}

/*
 * Sends a request for the driver itself, and waits likewise. Returns whether the device has done
 * it.
 */
bool paracuda_control_order(struct paracuda_device *dev, struct paracuda_request *req)
{
	return !paracuda_control_insist(dev, req, false) && paracuda_control_await(dev, req) &&
	       req->status == PARACUDA_STATUS_OK;
}
