// SPDX-License-Identifier: GPL-2.0
/*
 * A device is unplugged and plugged in again, here or on the host to which the VM moves; meanwhile
 * what its programs have on the GPU is saved. Its owner has announced that (present.c). The device
 * is kept with its channels and its name, and its programs wait, for as long as the host has said.
 * Each device that comes is asked whether it is the one that went.
 */

#include <linux/virtio_config.h>

#include "paracuda.h"

static DEFINE_MUTEX(away_lock);
static LIST_HEAD(away);		/* under away_lock: devices, each with a reference */

/* Whether a device that is about to be removed will be back, and somebody waits for it. */
static bool paracuda_will_be_back(struct paracuda_device *dev)
{
	return READ_ONCE(dev->absence.patience) && !READ_ONCE(dev->failed) &&
	       !READ_ONCE(dev->gone) && !paracuda_idle(dev);
}

/* Takes what was given back before, since what is parked is given to the device again. */
static void paracuda_reap_channels(struct paracuda_device *dev)
{
	unsigned int i;

	mutex_lock(&dev->lock);
	for (i = 0; i < dev->channels; i++)
		if (dev->queues[i].channel)
			paracuda_channel_reap(dev->queues[i].channel, 0);
	mutex_unlock(&dev->lock);
}

/* Stops the device for the time that it is away; false if it has failed before. */
static bool paracuda_stop_for_now(struct paracuda_device *dev)
{
	paracuda_stop(dev);
	cancel_delayed_work_sync(&dev->control_poll);
	cancel_work_sync(&dev->settings_work);
	paracuda_beat_stop(dev);
	flush_work(&dev->fail_work);
	return !READ_ONCE(dev->failed);
}

/* A device is removed. Returns whether it will be back, and is kept until then. */
bool paracuda_go_away(struct paracuda_device *dev)
{
	if (!paracuda_will_be_back(dev))
		return false;
	WRITE_ONCE(dev->absence.away, true);
	paracuda_reap_channels(dev);
	if (!paracuda_reset_stops(dev))
		paracuda_leave(dev, PARACUDA_LEAVE_TIMEOUT);
	if (!paracuda_stop_for_now(dev)) {
		WRITE_ONCE(dev->absence.away, false);
		return false;
	}
	dev_info(&dev->vdev->dev, "/dev/%s is away: its programs wait for %u s\n", dev->name,
		 dev->absence.patience);
	paracuda_node_part(dev, NULL);
	dev->vdev = NULL;
	kref_get(&dev->ref);	/* of the work */
	mutex_lock(&away_lock);
	list_add_tail(&dev->absence.node, &away);
	queue_delayed_work(paracuda_wq, &dev->absence.over, dev->absence.patience * HZ);
	mutex_unlock(&away_lock);
	return true;
}

/* It won't be back: its programs lose it. */
static void paracuda_forsake(struct paracuda_device *dev)
{
	paracuda_shut(dev);
	WRITE_ONCE(dev->absence.away, false);
	paracuda_node_remove(dev);
	paracuda_end(dev);
	paracuda_device_put(dev);
}

void paracuda_away_over(struct work_struct *work)
{
	struct paracuda_device *dev = container_of(work, struct paracuda_device, absence.over.work);
	bool waits;

	mutex_lock(&away_lock);
	waits = !list_empty(&dev->absence.node);
	list_del_init(&dev->absence.node);
	mutex_unlock(&away_lock);
	if (waits) {
		pr_err("paracuda: /dev/%s has not come back: its programs lose it\n", dev->name);
		paracuda_forsake(dev);
	}
	paracuda_device_put(dev);
}

/* The module ends: devices that are away are forgotten. */
void paracuda_away_end(void)
{
	struct paracuda_device *dev;

	for (;;) {
		mutex_lock(&away_lock);
		dev = list_first_entry_or_null(&away, struct paracuda_device, absence.node);
		if (dev)
			list_del_init(&dev->absence.node);
		mutex_unlock(&away_lock);
		if (!dev)
			break;
		if (cancel_delayed_work_sync(&dev->absence.over))
			paracuda_device_put(dev);
		paracuda_forsake(dev);
	}
	/* Of devices that needed nothing from us. */
	flush_workqueue(paracuda_wq);
}

/* Makes all chains available again, in the queues of the device that may be this one. */
static int paracuda_give_again(struct paracuda_device *dev)
{
	unsigned int i;
	int err = 0;

	paracuda_set_channels(dev, true);
	mutex_lock(&dev->lock);
	for (i = 0; i < dev->channels && !err; i++)
		if (dev->queues[i].channel)
			err = paracuda_channel_again(dev->queues[i].channel);
	mutex_unlock(&dev->lock);
	return err;
}

/*
 * Whether a device that has come is one that was away. If not, it has been reset. Under away_lock.
 */
static bool paracuda_is_back(struct paracuda_device *dev, struct virtio_device *vdev)
{
	unsigned int channels = dev->channels;
	int err;

	dev->vdev = vdev;
	vdev->priv = dev;
	WRITE_ONCE(dev->leaving, false);
	err = paracuda_start(dev, channels);
	if (!err && (dev->channels != channels || dev->settings.channels < channels))
		err = -ENODEV;
	if (!err)
		err = paracuda_give_again(dev);
	if (!err)
		err = paracuda_say_back(dev);
	if (!err)
		return true;
	/* One that broke can't be this one any more. The work waits for the lock. */
	if (!paracuda_stop_for_now(dev) && !mod_delayed_work(paracuda_wq, &dev->absence.over, 0))
		kref_get(&dev->ref);
	dev->channels = channels;
	dev->vdev = NULL;
	vdev->priv = NULL;
	return false;
}

/* The device serves its programs again. */
static void paracuda_welcome(struct paracuda_device *dev)
{
	list_del_init(&dev->absence.node);
	if (cancel_delayed_work(&dev->absence.over))
		paracuda_device_put(dev);
	paracuda_node_part(dev, &dev->vdev->dev);
	WRITE_ONCE(dev->absence.patience, 0);
	WRITE_ONCE(dev->absence.going, false);
	WRITE_ONCE(dev->absence.away, false);
	paracuda_serves(dev);
	wake_up_all(&dev->wait);
	paracuda_drop_again(dev);
	dev_info(&dev->vdev->dev, "/dev/%s is back\n", dev->name);
}

/*
 * Finds out whether a device that has come is one that was away; channels as for paracuda_begin().
 * 1: it is, and serves; 0: it isn't, and is in its initial state; or an error.
 */
int paracuda_come_back(struct virtio_device *vdev, unsigned int channels)
{
	struct paracuda_device *dev;
	int back = 0;

	mutex_lock(&away_lock);
	list_for_each_entry(dev, &away, absence.node) {
		if (channels && channels < dev->channels)
			continue;
		mutex_lock(&dev->absence.coming);
		back = paracuda_is_back(dev, vdev);
		mutex_unlock(&dev->absence.coming);
		if (back) {
			paracuda_welcome(dev);
			break;
		}
		virtio_reset_device(vdev);	/* unless it was, it didn't even start */
		back = paracuda_negotiate(vdev);
		if (back)
			break;
	}
	mutex_unlock(&away_lock);
	return back;
}
