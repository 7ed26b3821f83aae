// SPDX-License-Identifier: GPL-2.0
/* The virtqueues of a device. */

#include <linux/slab.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include "paracuda.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static int paracuda_find_vqs(struct paracuda_device *dev, unsigned int n)
{
	struct virtqueue_info *info;
	unsigned int i;
	int err;

	info = kcalloc(n, sizeof(*info), GFP_KERNEL);
	if (!info)
		return -ENOMEM;
	info[0].name = "control";
	info[0].callback = paracuda_control_done;
	for (i = 1; i < n; i++) {
		info[i].name = "channel";
		info[i].callback = paracuda_queue_done;
	}
	err = virtio_find_vqs(dev->vdev, n, dev->vqs, info, NULL);
	kfree(info);
	return err;
}
#else
static int paracuda_find_vqs(struct paracuda_device *dev, unsigned int n)
{
	vq_callback_t **callbacks;
	const char **names;
	unsigned int i;
	int err = -ENOMEM;

	callbacks = kcalloc(n, sizeof(*callbacks), GFP_KERNEL);
	names = kcalloc(n, sizeof(*names), GFP_KERNEL);
	if (callbacks && names) {
		for (i = 0; i < n; i++) {
			names[i] = i ? "channel" : "control";
			callbacks[i] = i ? paracuda_queue_done : paracuda_control_done;
		}
		err = virtio_find_vqs(dev->vdev, n, dev->vqs, callbacks, names, NULL);
	}
	kfree(names);
	kfree(callbacks);
	return err;
}
#endif

/*
 * How many channels the transport has queues for. virtio_uml has a bound; one queue is for control.
 */
static unsigned int paracuda_most_channels(struct paracuda_device *dev, unsigned int channels)
{
	unsigned int most = IS_ENABLED(CONFIG_UML) ? PARACUDA_UML_QUEUES - 1 : channels;

	if (channels <= most)
		return channels;
	dev_warn(&dev->vdev->dev,
		 "%u channels of %u are used: User Mode Linux has %u queues at most\n",
		 most, channels, PARACUDA_UML_QUEUES);
	return most;
}

/*
 * Finds the control queue and those of channels, at most so many: the front end may have fewer.
 * Returns how many channels there are.
 */
int paracuda_find_channels(struct paracuda_device *dev, unsigned int channels)
{
	unsigned int n;
	int err;

	for (n = paracuda_most_channels(dev, channels);; n--) {
		err = paracuda_find_vqs(dev, 1 + n);
		if (!err)
			return n;
		if (err != -ENOENT || n <= 1)
			break;
	}
	dev_err(&dev->vdev->dev, "the device's virtqueues can't be set up (%d)\n", err);
	return err;
}

/* VHOST_USER_F_PROTOCOL_FEATURES, which no kernel header has. */
#define PARACUDA_UML_PROTOCOL	30

/*
 * virtio_uml needs that feature each time that features are written, and clears it in vdev; without
 * it, queues are never enabled. Before validate() the core sets it, with all features of the
 * transport, but not when it writes what that has changed.
 */
void paracuda_uml_features(struct virtio_device *vdev)
{
	if (!IS_ENABLED(CONFIG_UML))
		return;
	if (vdev->config->get_features(vdev) & BIT_ULL(PARACUDA_UML_PROTOCOL))
		__virtio_set_bit(vdev, PARACUDA_UML_PROTOCOL);
}

/*
 * Sets a device up again after a reset, as the core does before probe(), and
 * virtio_device_restore(): it is then ready for other queues.
 */
int paracuda_negotiate(struct virtio_device *vdev)
{
	int err;

	virtio_add_status(vdev, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	virtio_add_status(vdev, VIRTIO_CONFIG_S_DRIVER);
	paracuda_uml_features(vdev);
	err = vdev->config->finalize_features(vdev);
	if (err)
		return err;
	virtio_add_status(vdev, VIRTIO_CONFIG_S_FEATURES_OK);
	if (vdev->config->get_status(vdev) & VIRTIO_CONFIG_S_FEATURES_OK)
		return 0;
	dev_err(&vdev->dev, "device refuses its own features\n");
	return -ENODEV;
}
