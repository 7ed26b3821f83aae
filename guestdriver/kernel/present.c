// SPDX-License-Identifier: GPL-2.0
/*
 * What waits while a device is away: unplugged, but soon back (away.c). Its owner announces that,
 * and its programs' state is saved: from then on no program begins to use it. The driver confirms,
 * with a key by which the device will recognise the VM.
 */

#include <linux/random.h>
#include <linux/sched/signal.h>

#include "paracuda.h"

/* Whether a call failed because the device went away, and may be made again. */
bool paracuda_missed(struct paracuda_device *dev, unsigned int era, long err)
{
	if (err != -ENODEV && err != -EAGAIN)
		return false;
	return !READ_ONCE(dev->gone) &&
	       (READ_ONCE(dev->absence.away) || READ_ONCE(dev->era) != era);
}

static int paracuda_present_errno(struct paracuda_device *dev, int killed)
{
	if (killed)
		return -EINTR;
	return READ_ONCE(dev->gone) ? -ENODEV : 0;
}

/* Waits until the device isn't away. -EINTR: the process is killed; -ENODEV: it won't be back. */
int paracuda_await_present(struct paracuda_device *dev)
{
	int killed;

	if (!READ_ONCE(dev->absence.away))
		return 0;
	killed = wait_event_killable(dev->wait, READ_ONCE(dev->gone) ||
				     !READ_ONCE(dev->absence.away));
	return paracuda_present_errno(dev, killed);
}

/* The same for a program that begins: not while the device is about to go away, either. */
int paracuda_await_settled(struct paracuda_device *dev)
{
	struct paracuda_absence *a = &dev->absence;
	int killed = wait_event_killable(dev->wait, READ_ONCE(dev->gone) ||
					 !(READ_ONCE(a->going) || READ_ONCE(a->away)));

	return paracuda_present_errno(dev, killed);
}

/* Begins the work that ends handles, or has it begin again (share.c). */
void paracuda_drop_again(struct paracuda_device *dev)
{
	kref_get(&dev->ref);
	if (!queue_work(paracuda_wq, &dev->handles.drop))
		paracuda_device_put(dev);
}

/*
 * Begins a request about a handle, which paracuda_share_end() ends when it is answered. false: the
 * device is away, or about to be, and what its handles stand for is being saved.
 */
bool paracuda_share_begin(struct paracuda_device *dev)
{
	struct paracuda_absence *a = &dev->absence;

	atomic_inc(&dev->handles.asking);
	/* Pairs with paracuda_await_shared(): it sees the request, or this sees that it waits. */
	smp_mb__after_atomic();
	if (READ_ONCE(dev->gone) || !(READ_ONCE(a->going) || READ_ONCE(a->away)))
		return true;
	paracuda_share_end(dev);
	return false;
}

void paracuda_share_end(struct paracuda_device *dev)
{
	if (atomic_dec_and_test(&dev->handles.asking))
		wake_up_all(&dev->wait);
}

/* Waits until no request about a handle is under way any more; false: some still are. */
static bool paracuda_await_shared(struct paracuda_device *dev)
{
	/* Pairs with paracuda_share_begin(). */
	smp_mb();
	wait_event_timeout(dev->wait, !atomic_read(&dev->handles.asking) || READ_ONCE(dev->failed),
			   PARACUDA_AWAY_TIMEOUT);
	return !atomic_read(&dev->handles.asking);
}

/* Tells the device that it may go away, and the key by which it will recognise this VM. */
static void paracuda_say_away(struct paracuda_device *dev)
{
	struct paracuda_request *req = &dev->absence.part;

	if (req->posted && !paracuda_answered(req) && req->era == READ_ONCE(dev->era))
		return;
	get_random_bytes(dev->absence.key, sizeof(dev->absence.key));
	memset(req, 0, sizeof(*req));
	req->out.type = PARACUDA_CONTROL_AWAY;
	BUILD_BUG_ON(sizeof(req->out.comm) != sizeof(dev->absence.key));
	memcpy(req->out.comm, dev->absence.key, sizeof(dev->absence.key));
	if (!paracuda_control_ask(dev, req, &dev->gone, PARACUDA_AWAY_TIMEOUT) &&
	    req->status == PARACUDA_STATUS_OK)
		WRITE_ONCE(dev->absence.patience, min_t(u32, req->number, PARACUDA_PATIENCE_MAX));
}

/* Notes what the settings say about the device going away. May sleep. */
void paracuda_heed_going(struct paracuda_device *dev, const struct paracuda_settings *settings)
{
	bool going = settings->flags & PARACUDA_CONFIG_FLAG_GOES_AWAY;

	if (going == READ_ONCE(dev->absence.going))
		return;
	WRITE_ONCE(dev->absence.patience, 0);
	WRITE_ONCE(dev->absence.going, going);
	if (!going) {
		wake_up_all(&dev->wait);
		paracuda_drop_again(dev);
	} else if (paracuda_await_shared(dev)) {
		paracuda_say_away(dev);
	}
}

/* Tells the device that it is back. It must have waited for this VM. */
int paracuda_say_back(struct paracuda_device *dev)
{
	struct paracuda_request *req = &dev->absence.part;
	int err;

	memset(req, 0, sizeof(*req));
	req->out.type = PARACUDA_CONTROL_BACK;
	memcpy(req->out.comm, dev->absence.key, sizeof(dev->absence.key));
	err = paracuda_control_ask(dev, req, &dev->failed, paracuda_answer_timeout());
	return err ? err : paracuda_status_errno(req->status);
}
