// SPDX-License-Identifier: GPL-2.0
/* What the VM's owner has set on the host. HELLO tells it, and changes are told later. */

#include <linux/io.h>
#include <linux/virtio_config.h>

#include "paracuda.h"

static bool paracuda_settings_valid(struct device *d, const struct paracuda_settings *settings)
{
	if (!settings->channels || settings->channels > PARACUDA_MAX_CHANNELS) {
		dev_err(d, "device offers %u channels, not 1 to %u\n",
			settings->channels, PARACUDA_MAX_CHANNELS);
		return false;
	}
	if (settings->arena_bytes < PARACUDA_BULK + PAGE_SIZE ||
	    settings->arena_bytes > PARACUDA_ARENA_MAX || !PAGE_ALIGNED(settings->arena_bytes)) {
		dev_err(d, "device asks for an arena of %u bytes\n", settings->arena_bytes);
		return false;
	}
	return true;
}

/*
 * Copies the settings out of an answer once; false, with a line in the log, if they are impossible.
 */
static bool paracuda_settings_take(struct paracuda_device *dev,
				   const struct paracuda_request *req)
{
	struct paracuda_settings settings = req->settings;

	/* From here on the host can't change it. */
	barrier_data(&settings);
	if (!paracuda_settings_valid(&dev->vdev->dev, &settings))
		return false;
	spin_lock(&dev->settings_lock);
	dev->settings = settings;
	spin_unlock(&dev->settings_lock);
	return true;
}

/* Greets the device, and takes the settings from its answer. */
int paracuda_hello(struct paracuda_device *dev)
{
	struct paracuda_request *req = &dev->hello;
	struct device *d = &dev->vdev->dev;
	u64 exposed = virt_to_phys(dev->exposed);
	int err;

	memset(req, 0, sizeof(*req));
	req->out.type = PARACUDA_CONTROL_HELLO;
	req->out.number = PARACUDA_VERSION;
	memcpy(req->out.comm, &exposed, sizeof(exposed));
	err = paracuda_control_post(dev, req);
	if (err)
		return err;
	if (!wait_event_timeout(dev->wait, paracuda_answered(req) || READ_ONCE(dev->failed),
				paracuda_answer_timeout())) {
		dev_err(d, "device does not answer: is the host's device process running?\n");
		return -ETIMEDOUT;
	}
	if (!paracuda_answered(req))
		return -ENODEV;
	if (req->status == PARACUDA_STATUS_BAD_VERSION)
		dev_err(d, "device refuses protocol version %u: " PARACUDA_OTHER_PACKAGE,
			PARACUDA_VERSION);
	else if (req->status != PARACUDA_STATUS_OK)
		dev_err(d, "device refuses this driver, status %u\n", req->status);
	else if (!paracuda_settings_take(dev, req))
		return -EPROTO;
	return paracuda_status_errno(req->status);
}

/* A copy of the settings as they were last told. */
void paracuda_settings_get(struct paracuda_device *dev, struct paracuda_settings *settings)
{
	spin_lock(&dev->settings_lock);
	*settings = dev->settings;
	spin_unlock(&dev->settings_lock);
}

/* Publishes what a channel's process follows at once. */
void paracuda_settings_publish(struct paracuda_channel *ch,
			       const struct paracuda_settings *settings)
{
	WRITE_ONCE(ch->header->batch_commands, settings->batch_commands);
	WRITE_ONCE(ch->header->spin_guest_us, settings->spin_guest_us);
	WRITE_ONCE(ch->header->inline_limit, settings->inline_limit);
	WRITE_ONCE(ch->header->config_flags, settings->flags);
}

/* Asks to be told of the next change. */
void paracuda_settings_watch(struct paracuda_device *dev)
{
	struct paracuda_request *req = &dev->watch;
	struct paracuda_settings settings;

	paracuda_settings_get(dev, &settings);
	memset(req, 0, sizeof(*req));
	req->out.type = PARACUDA_CONTROL_SETTINGS;
	req->out.number = settings.sequence;
	if (paracuda_control_post(dev, req))
		dev_warn(&dev->vdev->dev,
			 "later changes of settings are missed: the device could not be asked\n");
}

/* The settings changed: open channels follow them, except for the arena's size. */
void paracuda_settings_work(struct work_struct *work)
{
	struct paracuda_device *dev = container_of(work, struct paracuda_device, settings_work);
	struct paracuda_settings settings;
	unsigned int i;

	if (READ_ONCE(dev->gone) || READ_ONCE(dev->leaving) || !paracuda_answered(&dev->watch))
		return;
	if (dev->watch.status != PARACUDA_STATUS_OK || !paracuda_settings_take(dev, &dev->watch)) {
		dev_warn(&dev->vdev->dev,
			 "later changes of settings are missed: the device refused\n");
		return;
	}
	paracuda_settings_get(dev, &settings);
	mutex_lock(&dev->lock);
	for (i = 0; i < dev->channels; i++)
		if (dev->queues[i].channel)
			paracuda_settings_publish(dev->queues[i].channel, &settings);
	mutex_unlock(&dev->lock);
	paracuda_heed_going(dev, &settings);
	paracuda_settings_watch(dev);
}
