// SPDX-License-Identifier: GPL-2.0
/*
 * What every file needs of a device: references, and giving it up. main.c makes and ends devices.
 */

#include <linux/slab.h>

#include "paracuda.h"

struct workqueue_struct *paracuda_wq;

static void paracuda_device_release(struct kref *ref)
{
	struct paracuda_device *dev = container_of(ref, struct paracuda_device, ref);

	cleanup_srcu_struct(&dev->srcu);
	free_page((unsigned long)dev->exposed);
	kfree(dev->vqs);
	kfree(dev);
}

void paracuda_device_put(struct paracuda_device *dev)
{
	kref_put(&dev->ref, paracuda_device_release);
}

/* Resets the device, which can't be used after that. From any context. */
void paracuda_fail(struct paracuda_device *dev)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->fail_lock, flags);
	if (!dev->failed) {
		WRITE_ONCE(dev->failed, true);
		queue_work(paracuda_wq, &dev->fail_work);
	}
	spin_unlock_irqrestore(&dev->fail_lock, flags);
}
