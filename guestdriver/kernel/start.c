// SPDX-License-Identifier: GPL-2.0
/* Starting, stopping and ending a device. */

#include <linux/virtio_config.h>

#include "paracuda.h"

/* Gives the control queue its virtqueue, or takes it away. */
static void paracuda_set_control(struct paracuda_device *dev, bool on)
{
	spin_lock_irq(&dev->control_lock);
	dev->control = on ? dev->vqs[0] : NULL;
	dev->asked = 0;
	spin_unlock_irq(&dev->control_lock);
}

/* The same for the channels. */
void paracuda_set_channels(struct paracuda_device *dev, bool on)
{
	struct paracuda_queue *q;
	unsigned int i;

	for (i = 0; i < dev->channels; i++) {
		q = &dev->queues[i];
		spin_lock_irq(&q->lock);
		WRITE_ONCE(q->vq, on ? dev->vqs[1 + i] : NULL);
		spin_unlock_irq(&q->lock);
	}
}

/* Takes every chain back, before the queues end. */
static void paracuda_detach(struct paracuda_device *dev)
{
	struct paracuda_queue *q;
	unsigned int i;

	for (i = 0; i < dev->channels; i++) {
		q = &dev->queues[i];
		spin_lock_irq(&q->lock);
		if (READ_ONCE(dev->absence.away))
			paracuda_queue_park(q, dev->vqs[1 + i]);
		else
			paracuda_queue_detach(q, dev->vqs[1 + i]);
		spin_unlock_irq(&q->lock);
	}
	while (virtqueue_detach_unused_buf(dev->vqs[0]))
		;
}

/* Lets go of the pages of all maps: nobody else uses them any more. */
static void paracuda_release(struct paracuda_device *dev)
{
	struct paracuda_queue *q;
	unsigned int i;

	for (i = 0; i < dev->channels; i++) {
		q = &dev->queues[i];
		spin_lock_irq(&q->lock);
		paracuda_queue_release(q);
		spin_unlock_irq(&q->lock);
	}
}

/*
 * Makes sure that the host touches nothing of the guest any more, and gives every chain back. This
 * is after del_vqs(), which stops the host with some transports, instead of the reset.
 */
void paracuda_stop(struct paracuda_device *dev)
{
	mutex_lock(&dev->stop_lock);
	if (!dev->stopped) {
		paracuda_set_control(dev, false);
		paracuda_set_channels(dev, false);
		synchronize_srcu(&dev->srcu);
		paracuda_unplace(dev);
		virtio_reset_device(dev->vdev);
		paracuda_detach(dev);
		dev->vdev->config->del_vqs(dev->vdev);
		paracuda_release(dev);
		WRITE_ONCE(dev->stopped, true);
		WRITE_ONCE(dev->era, dev->era + 1);
	}
	mutex_unlock(&dev->stop_lock);
	wake_up_all(&dev->wait);
}

/* Starts the control queue, and at most so many channels, unless programs are to wait. */
static int paracuda_start_queues(struct paracuda_device *dev, unsigned int channels)
{
	int n;

	mutex_lock(&dev->stop_lock);
	n = paracuda_find_channels(dev, channels);
	if (n >= 0) {
		dev->channels = n;
		paracuda_place_begin(dev);
		WRITE_ONCE(dev->stopped, false);
		WRITE_ONCE(dev->era, dev->era + 1);
		paracuda_set_control(dev, true);
		if (!READ_ONCE(dev->absence.away))
			paracuda_set_channels(dev, true);
		virtio_device_ready(dev->vdev);
	}
	mutex_unlock(&dev->stop_lock);
	return n < 0 ? n : 0;
}

/* Does so, and greets the device. */
int paracuda_start(struct paracuda_device *dev, unsigned int channels)
{
	int err;

	err = paracuda_start_queues(dev, channels);
	if (err)
		return err;
	err = paracuda_hello(dev);
	if (err)
		paracuda_stop(dev);
	return err;
}

/*
 * Asks the device how many channels it has, with only its control queue: a running device can't get
 * more queues, so it is set up again after this.
 */
static int paracuda_ask_channels(struct paracuda_device *dev, unsigned int *channels)
{
	int err;

	err = paracuda_start(dev, 0);
	if (err)
		return err;
	paracuda_stop(dev);
	*channels = dev->settings.channels;
	return paracuda_negotiate(dev->vdev);
}

/* The device serves, and has told its settings. */
void paracuda_serves(struct paracuda_device *dev)
{
	paracuda_beat_start(dev);
	paracuda_settings_watch(dev);
}

/* Starts a device that is new and has queues for so many channels; 0: as many as it says. */
int paracuda_begin(struct paracuda_device *dev, unsigned int channels)
{
	int err = 0;

	if (!channels)
		err = paracuda_ask_channels(dev, &channels);
	if (!err)
		err = paracuda_start(dev, channels);
	if (err)
		return err;
	/* Queues beyond what the host serves stay unused. */
	dev->channels = min(dev->channels, dev->settings.channels);
	paracuda_serves(dev);
	return 0;
}

/* No more channels; those that are open begin to close. */
void paracuda_shut(struct paracuda_device *dev)
{
	unsigned int i;

	mutex_lock(&dev->lock);
	WRITE_ONCE(dev->gone, true);
	for (i = 0; i < dev->channels; i++)
		if (dev->queues[i].channel)
			paracuda_channel_close(dev->queues[i].channel);
	mutex_unlock(&dev->lock);
	wake_up_all(&dev->wait);
	paracuda_drop_again(dev);
}

/* When this returns, fail_work neither runs nor will. */
static void paracuda_fail_no_more(struct paracuda_device *dev)
{
	spin_lock_irq(&dev->fail_lock);
	WRITE_ONCE(dev->failed, true);
	spin_unlock_irq(&dev->fail_lock);
	cancel_work_sync(&dev->fail_work);
}

bool paracuda_idle(struct paracuda_device *dev)
{
	return !atomic_read(&dev->busy);
}

/* Stops the device for good: no work of it is left when this returns. */
void paracuda_end(struct paracuda_device *dev)
{
	paracuda_fail_no_more(dev);
	paracuda_stop(dev);
	cancel_delayed_work_sync(&dev->control_poll);
	cancel_work_sync(&dev->settings_work);
	paracuda_beat_stop(dev);
	wait_event(dev->wait, paracuda_idle(dev));
}
