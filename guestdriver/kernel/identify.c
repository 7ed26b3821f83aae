// SPDX-License-Identifier: GPL-2.0
/* Which virtio devices are ours, and taking them over from virtiofs. */

#include <linux/device/bus.h>
#include <linux/pci.h>
#include <linux/stringify.h>
#include <linux/virtio_config.h>
#include <linux/virtio_fs.h>
#include <linux/virtio_pci.h>

#include "paracuda.h"

#define PARACUDA_CONFIG_WORDS	(sizeof(struct paracuda_config) / sizeof(__le32))

/*
 * Bytes of configuration space. Reading past its end is a bug check in virtio-pci, and two of the
 * three ids belong to other kinds of devices.
 */
static size_t paracuda_config_room(struct virtio_device *vdev)
{
	struct pci_dev *pci;
	u32 length;
	u8 pos, type;

	if (!vdev->config->get)
		return 0;
	if (!dev_is_pci(vdev->dev.parent))
		return SIZE_MAX;

	pci = to_pci_dev(vdev->dev.parent);
	for (pos = pci_find_capability(pci, PCI_CAP_ID_VNDR); pos;
	     pos = pci_find_next_capability(pci, pos, PCI_CAP_ID_VNDR)) {
		pci_read_config_byte(pci, pos + offsetof(struct virtio_pci_cap, cfg_type), &type);
		if (type != VIRTIO_PCI_CAP_DEVICE_CFG)
			continue;
		pci_read_config_dword(pci, pos + offsetof(struct virtio_pci_cap, length), &length);
		return length;
	}
	return 0;
}

/* Whether a file system's device has our tag, alone or with a name behind a colon. */
static bool paracuda_has_tag(struct virtio_device *vdev)
{
	char tag[sizeof_field(struct virtio_fs_config, tag)];
	const size_t len = strlen(PARACUDA_FS_TAG);

	if (paracuda_config_room(vdev) < sizeof(struct virtio_fs_config))
		return false;
	virtio_cread_bytes(vdev, offsetof(struct virtio_fs_config, tag), tag, sizeof(tag));
	return !strncmp(tag, PARACUDA_FS_TAG, len) && (!tag[len] || tag[len] == ':');
}

static int paracuda_identify_fs(struct virtio_device *vdev, unsigned int *channels)
{
	u32 n;

	if (!paracuda_has_tag(vdev))
		return -ENODEV;	/* a file system: nothing to report */
	virtio_cread_le(vdev, struct virtio_fs_config, num_request_queues, &n);
	if (!n) {
		dev_err(&vdev->dev, "device has no request queues: give it num-request-queues=N\n");
		return -ENODEV;
	}
	*channels = min_t(u32, n, PARACUDA_MAX_CHANNELS);
	return 0;
}

/* For a device with a configuration space that the host fills in. */
static int paracuda_identify_config(struct virtio_device *vdev)
{
	__le32 raw[PARACUDA_CONFIG_WORDS];

	BUILD_BUG_ON(sizeof(struct paracuda_config) != PARACUDA_SIZEOF_CONFIG);

	if (paracuda_config_room(vdev) < sizeof(raw)) {
		dev_info(&vdev->dev,
			 "not a paracuda device, or QEMU was not told config_size="
			 __stringify(PARACUDA_CONFIG_ROOM) " for it\n");
		return -ENODEV;
	}
	__virtio_cread_many(vdev, 0, raw, ARRAY_SIZE(raw), sizeof(*raw));
	if (le32_to_cpu(raw[0]) != PARACUDA_MAGIC) {
		dev_info(&vdev->dev, "not a paracuda device: magic %#x\n", le32_to_cpu(raw[0]));
		return -ENODEV;
	}
	if (le32_to_cpu(raw[1]) != PARACUDA_VERSION) {
		dev_err(&vdev->dev,
			"device speaks protocol version %u, this driver %u: "
			PARACUDA_OTHER_PACKAGE,
			le32_to_cpu(raw[1]), PARACUDA_VERSION);
		return -ENODEV;
	}
	return 0;
}

/*
 * Says whether the device is ours, and for how many channels it has queues, 0 if only the device
 * itself knows; -ENODEV if it isn't ours, so that another driver can have it. May sleep.
 */
int paracuda_identify(struct virtio_device *vdev, unsigned int *channels)
{
	*channels = 0;
	if (vdev->id.device == PARACUDA_VIRTIO_ID_FS)
		return paracuda_identify_fs(vdev, channels);
	return paracuda_identify_config(vdev);
}

/*
 * The kernel's virtiofs takes every device of its id, and often comes first. That does no harm: the
 * host has returned all that it may have asked.
 */
static int paracuda_take_over_one(struct device *dev, void *data)
{
	struct virtio_device *vdev = dev_to_virtio(dev);
	struct device_driver *ours = data, *theirs = READ_ONCE(dev->driver);
	int err;

	if (vdev->id.device != PARACUDA_VIRTIO_ID_FS || !theirs || theirs == ours ||
	    !paracuda_has_tag(vdev))
		return 0;
	dev_info(dev, "taken over from %s\n", theirs->name);
	device_release_driver(dev);
	err = device_driver_attach(ours, dev);
	if (err)
		dev_err(dev, "not taken over (%d)\n", err);
	return 0;
}

static struct device_driver *paracuda_taker;

static void paracuda_take_over(struct work_struct *work)
{
	bus_for_each_dev(paracuda_taker->bus, NULL, paracuda_taker, paracuda_take_over_one);
}

static DECLARE_WORK(paracuda_take_over_work, paracuda_take_over);

/*
 * The caller holds the lock of a device that another driver has got, so the device is taken over
 * later.
 */
static int paracuda_bound(struct notifier_block *block, unsigned long action, void *data)
{
	struct device *dev = data;

	if (action == BUS_NOTIFY_BOUND_DRIVER && dev->driver != paracuda_taker &&
	    dev_to_virtio(dev)->id.device == PARACUDA_VIRTIO_ID_FS)
		queue_work(paracuda_wq, &paracuda_take_over_work);
	return NOTIFY_DONE;
}

static struct notifier_block paracuda_bound_block = { .notifier_call = paracuda_bound };

/*
 * From now on this driver, which is registered, gets our devices, even if another one has them
 * first. When this returns it has those that are there.
 */
int paracuda_take_over_begin(struct device_driver *driver)
{
	int err;

	paracuda_taker = driver;
	err = bus_register_notifier(driver->bus, &paracuda_bound_block);
	if (err)
		return err;
	queue_work(paracuda_wq, &paracuda_take_over_work);
	flush_work(&paracuda_take_over_work);
	return 0;
}

void paracuda_take_over_end(void)
{
	bus_unregister_notifier(paracuda_taker->bus, &paracuda_bound_block);
	cancel_work_sync(&paracuda_take_over_work);
}
