// SPDX-License-Identifier: GPL-2.0
/* Finding, starting, stopping and losing devices. */

#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include "paracuda.h"

static void paracuda_fail_work(struct work_struct *work)
{
	struct paracuda_device *dev = container_of(work, struct paracuda_device, fail_work);

	dev_err(&dev->vdev->dev, "device broke the protocol or is gone: not used any more\n");
	paracuda_shut(dev);
	paracuda_stop(dev);
	paracuda_nodes_settle();
}

/* The host raises an interrupt for the device as a whole when it can't go on. */
static void paracuda_status_work(struct work_struct *work)
{
	struct paracuda_device *dev = container_of(work, struct paracuda_device, status_work);

	if (dev->vdev->config->get_status(dev->vdev) & VIRTIO_CONFIG_S_NEEDS_RESET) {
		dev_err(&dev->vdev->dev, "device needs a reset\n");
		paracuda_fail(dev);
	}
}

/*
 * The device hands out physical addresses, which the DMA API knows nothing of. Indirect tables
 * would lie in pages beside anything of the kernel's.
 */
static int paracuda_validate(struct virtio_device *vdev)
{
	__virtio_clear_bit(vdev, VIRTIO_F_ACCESS_PLATFORM);
	__virtio_clear_bit(vdev, VIRTIO_RING_F_INDIRECT_DESC);
	paracuda_uml_features(vdev);
	return 0;
}

static struct paracuda_device *paracuda_device_alloc(struct virtio_device *vdev)
{
	struct paracuda_device *dev;
	unsigned int i;

	dev = kzalloc(struct_size(dev, queues, PARACUDA_MAX_CHANNELS), GFP_KERNEL);
	if (!dev)
		return NULL;
	dev->vqs = kcalloc(1 + PARACUDA_MAX_CHANNELS, sizeof(*dev->vqs), GFP_KERNEL);
	dev->exposed = (u64 *)get_zeroed_page(GFP_KERNEL);
	if (!dev->vqs || !dev->exposed || init_srcu_struct(&dev->srcu)) {
		free_page((unsigned long)dev->exposed);
		kfree(dev->vqs);
		kfree(dev);
		return NULL;
	}
	kref_init(&dev->ref);
	dev->vdev = vdev;
	dev->stopped = true;
	mutex_init(&dev->lock);
	mutex_init(&dev->stop_lock);
	mutex_init(&dev->place_lock);
	mutex_init(&dev->absence.coming);
	spin_lock_init(&dev->control_lock);
	spin_lock_init(&dev->settings_lock);
	init_waitqueue_head(&dev->wait);
	INIT_WORK(&dev->fail_work, paracuda_fail_work);
	INIT_WORK(&dev->settings_work, paracuda_settings_work);
	INIT_WORK(&dev->status_work, paracuda_status_work);
	INIT_DELAYED_WORK(&dev->control_poll, paracuda_control_poll);
	INIT_DELAYED_WORK(&dev->beat.work, paracuda_beat_work);
	INIT_DELAYED_WORK(&dev->absence.over, paracuda_away_over);
	INIT_LIST_HEAD(&dev->absence.node);
	spin_lock_init(&dev->fail_lock);
	spin_lock_init(&dev->bounds.lock);
	spin_lock_init(&dev->handles.lock);
	INIT_LIST_HEAD(&dev->handles.dropped);
	INIT_LIST_HEAD(&dev->bounds.users);
	INIT_WORK(&dev->handles.drop, paracuda_drop_work);
	for (i = 0; i < PARACUDA_MAX_CHANNELS; i++) {
		dev->queues[i].dev = dev;
		dev->queues[i].index = i;
		spin_lock_init(&dev->queues[i].lock);
		INIT_LIST_HEAD(&dev->queues[i].detached);
	}
	return dev;
}

/*
 * Gives the device time to take what was sent to it, and to give back what it has: some transports
 * don't tell it that the guest ends, and it would find other data where the queues were.
 */
static int paracuda_reboot(struct notifier_block *block, unsigned long action, void *data)
{
	struct paracuda_device *dev = container_of(block, struct paracuda_device, reboot);

	wait_event_timeout(dev->wait, paracuda_idle(dev) || READ_ONCE(dev->failed),
			   PARACUDA_REBOOT_TIMEOUT);
	paracuda_leave(dev, PARACUDA_LEAVE_TIMEOUT);
	return NOTIFY_DONE;
}

/* A device that isn't one that was away. */
static int paracuda_probe_new(struct virtio_device *vdev, unsigned int channels)
{
	struct paracuda_device *dev;
	int err;

	dev = paracuda_device_alloc(vdev);
	if (!dev)
		return -ENOMEM;
	vdev->priv = dev;
	dev->reboot.notifier_call = paracuda_reboot;
	err = register_reboot_notifier(&dev->reboot);
	if (!err)
		err = paracuda_begin(dev, channels);
	if (!err)
		err = paracuda_node_add(dev);
	if (err) {
		unregister_reboot_notifier(&dev->reboot);
		paracuda_end(dev);
		vdev->priv = NULL;
		paracuda_device_put(dev);
		return err;
	}
	return 0;
}

static int paracuda_probe(struct virtio_device *vdev)
{
	struct paracuda_device *dev;
	unsigned int channels;
	int err, back;

	err = paracuda_identify(vdev, &channels);
	if (err)
		return err;
	if (!virtio_has_feature(vdev, VIRTIO_F_VERSION_1)) {
		dev_err(&vdev->dev, "device lacks VERSION_1\n");
		return -ENODEV;
	}
	back = paracuda_come_back(vdev, channels);
	if (back < 0)
		return back;
	if (!back)
		return paracuda_probe_new(vdev, channels);
	dev = vdev->priv;
	register_reboot_notifier(&dev->reboot);
	return 0;
}

static void paracuda_remove(struct virtio_device *vdev)
{
	struct paracuda_device *dev = vdev->priv;

	unregister_reboot_notifier(&dev->reboot);
	cancel_work_sync(&dev->status_work);
	if (paracuda_go_away(dev)) {
		vdev->priv = NULL;
		return;
	}
	paracuda_node_remove(dev);
	paracuda_shut(dev);

	/* First an orderly end, if the device is still there. */
	wait_event_timeout(dev->wait, paracuda_idle(dev) || READ_ONCE(dev->failed),
			   PARACUDA_REMOVE_TIMEOUT);
	if (!paracuda_reset_stops(dev))
		paracuda_leave(dev, PARACUDA_LEAVE_TIMEOUT);
	paracuda_end(dev);
	vdev->priv = NULL;
	paracuda_device_put(dev);
}

static void paracuda_config_changed(struct virtio_device *vdev)
{
	struct paracuda_device *dev = vdev->priv;

	queue_work(paracuda_wq, &dev->status_work);
}

#ifdef CONFIG_PM_SLEEP
/*
 * State on the host isn't suspended with the guest, so open channels and handles forbid suspending.
 */
static int paracuda_freeze(struct virtio_device *vdev)
{
	struct paracuda_device *dev = vdev->priv;

	if (!paracuda_idle(dev) || atomic_read(&dev->handles.count)) {
		dev_warn(&vdev->dev, "not suspending: programs use the GPU\n");
		return -EBUSY;
	}
	cancel_work_sync(&dev->status_work);
	paracuda_leave(dev, PARACUDA_LEAVE_TIMEOUT);
	paracuda_stop(dev);
	cancel_work_sync(&dev->settings_work);
	paracuda_beat_stop(dev);
	/* Work of an earlier failure must not stop what restore starts. */
	flush_work(&dev->fail_work);
	return 0;
}

static int paracuda_restore(struct virtio_device *vdev)
{
	struct paracuda_device *dev = vdev->priv;
	int err;

	if (READ_ONCE(dev->gone))
		return 0;
	WRITE_ONCE(dev->leaving, false);
	err = paracuda_start(dev, dev->channels);
	if (!err)
		paracuda_serves(dev);
	return err;
}
#endif

static const struct virtio_device_id paracuda_id_table[] = {
	{ PARACUDA_VIRTIO_ID, VIRTIO_DEV_ANY_ID },
	{ PARACUDA_VIRTIO_ID_STOCK, VIRTIO_DEV_ANY_ID },
	{ PARACUDA_VIRTIO_ID_FS, VIRTIO_DEV_ANY_ID },
	{ 0 },
};
MODULE_DEVICE_TABLE(virtio, paracuda_id_table);

static struct virtio_driver paracuda_driver = {
	.driver.name = KBUILD_MODNAME,
	.driver.owner = THIS_MODULE,
	.id_table = paracuda_id_table,
	.validate = paracuda_validate,
	.probe = paracuda_probe,
	.remove = paracuda_remove,
	.config_changed = paracuda_config_changed,
#ifdef CONFIG_PM_SLEEP
	.freeze = paracuda_freeze,
	.restore = paracuda_restore,
#endif
};

static int __init paracuda_init(void)
{
	int err;

	paracuda_wq = alloc_workqueue("paracuda", WQ_UNBOUND, 0);
	if (!paracuda_wq)
		return -ENOMEM;
	err = register_virtio_driver(&paracuda_driver);
	if (err)
		goto no_driver;
	err = paracuda_take_over_begin(&paracuda_driver.driver);
	if (err)
		goto no_notifier;
	return 0;

no_notifier:
	unregister_virtio_driver(&paracuda_driver);
no_driver:
	destroy_workqueue(paracuda_wq);
	return err;
}
module_init(paracuda_init);

static void __exit paracuda_exit(void)
{
	paracuda_take_over_end();
	unregister_virtio_driver(&paracuda_driver);
	paracuda_away_end();
	destroy_workqueue(paracuda_wq);
}
module_exit(paracuda_exit);

MODULE_DESCRIPTION("Paracuda paravirtual CUDA GPU");
MODULE_LICENSE("GPL");
/* With it a build has a srcversion, by which the package tells builds apart. */
MODULE_VERSION(__stringify(PARACUDA_VERSION));
