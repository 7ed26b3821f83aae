// SPDX-License-Identifier: GPL-2.0
/*
 * Taking leave of the device. SETTINGS is always in the control queue, and taking a chain out of a
 * queue sets its index back. With a transport whose reset doesn't stop the host (virtio_uml), the
 * host would see that, and might use what is no chain any more. So it gives everything back first.
 */

#include <linux/pci.h>

#include "paracuda.h"

/*
 * Whether a reset of the device stops the host by itself. On PCI the front end has stopped every
 * queue of its back end when the reset is over, and a back end that is dead takes no time.
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
 * Gets back what the device still has of the control queue, for as long as timeout, and asks for
 * nothing new. A SETTINGS that is answered at once gets the earlier one answered, too.
 */
void paracuda_leave(struct paracuda_device *dev, long timeout)
{
	struct paracuda_request *req = &dev->farewell;
	struct paracuda_settings settings;

	if (READ_ONCE(dev->failed) || READ_ONCE(dev->stopped) || READ_ONCE(dev->leaving))
		return;
	WRITE_ONCE(dev->leaving, true);
	paracuda_beat_stop(dev);
	cancel_work_sync(&dev->settings_work);	/* from now on it asks for nothing */
	paracuda_settings_get(dev, &settings);
	memset(req, 0, sizeof(*req));
	req->out.type = PARACUDA_CONTROL_SETTINGS;
	req->out.number = ~settings.sequence;
	if (!paracuda_control_post(dev, req))
		wait_event_timeout(dev->wait, paracuda_nothing_asked(dev), timeout);
	/* It need not look any more, and would find the queues broken when the guest ends. */
	cancel_delayed_work_sync(&dev->control_poll);
}
