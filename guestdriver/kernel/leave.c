// SPDX-License-Identifier: GPL-2.0
/*
 * Taking leave of the device. SETTINGS is always in the control queue, and taking a chain out of a
 * queue sets its index back. If a reset doesn't stop the host (virtio_uml), the host sees that, and
 * may use what is no longer a chain. So the host gives everything back first.
 */

#include <linux/pci.h>

#include "paracuda.h"

/*
 * Whether a reset of the device stops the host by itself. On PCI the front end has stopped every
 * queue of its back end when the reset is over, and doesn't wait for a dead one.
 */
bool paracuda_reset_stops(struct paracuda_device *dev)
{
	return dev_is_pci(dev->vdev->dev.parent);
}

static bool paracuda_nothing_asked(struct paracuda_device *dev)
{
	return !READ_ONCE(dev->asked) || READ_ONCE(dev->failed);
}

/*
 * Gets back what the device still has of the control queue, waiting at most for timeout, and asks
 * for nothing new. A SETTINGS that is answered at once gets the earlier one answered, too.
 */
void paracuda_leave(struct paracuda_device *dev, long timeout)
{
	struct paracuda_request *req = &dev->farewell;
	struct paracuda_settings settings;

	if (READ_ONCE(dev->failed) || READ_ONCE(dev->stopped) || READ_ONCE(dev->leaving))
		return;
	WRITE_ONCE(dev->leaving, true);
	paracuda_beat_stop(dev);
	cancel_work_sync(&dev->settings_work);	/* from now on nothing is asked */
	paracuda_settings_get(dev, &settings);
	memset(req, 0, sizeof(*req));
	req->out.type = PARACUDA_CONTROL_SETTINGS;
	req->out.number = ~settings.sequence;
	if (!paracuda_control_post(dev, req))
		wait_event_timeout(dev->wait, paracuda_nothing_asked(dev), timeout);
	/* Nobody need look any more, and the queues are broken when the guest ends. */
	cancel_delayed_work_sync(&dev->control_poll);
}
