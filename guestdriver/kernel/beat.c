// SPDX-License-Identifier: GPL-2.0
/*
 * Signs of life. When the host's device process is gone, QEMU doesn't tell, and requests are never
 * answered. So the device is asked for a sign of life from time to time, which it gives at once;
 * without one it is gone, and what waits for it ends with ENODEV.
 */

#include "paracuda.h"

#define PARACUDA_BEAT		(5 * HZ)

/*
 * How many times an answer may be missing. Times are counted, since the guest may have been paused
 * in between. A device is busy for long while memory is taken from its VM.
 */
static unsigned int paracuda_beats(void)
{
	return DIV_ROUND_UP(paracuda_answer_timeout(), PARACUDA_BEAT);
}

/* Whether the device has answered the last time, and was asked again since. */
static bool paracuda_beat_again(struct paracuda_device *dev)
{
	struct paracuda_request *req = &dev->beat.request;

	if (req->posted && !paracuda_answered(req))
		return false;
	memset(req, 0, sizeof(*req));
	req->out.type = PARACUDA_CONTROL_PING;
	return !paracuda_control_post(dev, req);
}

void paracuda_beat_work(struct work_struct *work)
{
	struct paracuda_device *dev = container_of(work, struct paracuda_device, beat.work.work);
	unsigned int most = paracuda_beats();

	if (READ_ONCE(dev->failed) || READ_ONCE(dev->stopped))
		return;
	if (paracuda_beat_again(dev)) {
		dev->beat.missed = 0;
	} else if (++dev->beat.missed >= most) {
		dev_err(&dev->vdev->dev,
			"device has not answered for %u s: has the host's device process ended?\n",
			most * PARACUDA_BEAT / HZ);
		paracuda_fail(dev);
		return;
	}
	queue_delayed_work(paracuda_wq, &dev->beat.work, PARACUDA_BEAT);
}

/* The device has begun to serve. */
void paracuda_beat_start(struct paracuda_device *dev)
{
	dev->beat.request.posted = false;
	dev->beat.missed = 0;
	queue_delayed_work(paracuda_wq, &dev->beat.work, PARACUDA_BEAT);
}

/* The device is stopped, or will not be asked any more; may sleep. */
void paracuda_beat_stop(struct paracuda_device *dev)
{
	cancel_delayed_work_sync(&dev->beat.work);
}
