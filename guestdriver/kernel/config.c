// SPDX-License-Identifier: GPL-2.0
/* The configuration space. */

#include <linux/pci.h>
#include <linux/virtio_config.h>
#include <linux/virtio_pci.h>

#include "paracuda.h"

#define PARACUDA_CONFIG_WORDS	(sizeof(struct paracuda_config) / sizeof(__le32))

/*
 * Bytes of configuration space. A read past its end is a bug check in virtio-pci, and one of the
 * two ids is another device's by right.
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

static bool paracuda_config_valid(struct virtio_device *vdev, const struct paracuda_config *config)
{
	if (!config->channels || config->channels > PARACUDA_MAX_CHANNELS) {
		dev_err(&vdev->dev, "device offers %u channels, not 1 to %u\n",
			config->channels, PARACUDA_MAX_CHANNELS);
		return false;
	}
	if (config->arena_bytes < PARACUDA_BULK + PAGE_SIZE ||
	    config->arena_bytes > PARACUDA_ARENA_MAX || !PAGE_ALIGNED(config->arena_bytes)) {
		dev_err(&vdev->dev, "device asks for an arena of %u bytes\n", config->arena_bytes);
		return false;
	}
	return true;
}

/* Reads all of it; -ENODEV, with one line in the log, for what is not ours. May sleep. */
int paracuda_config_read(struct virtio_device *vdev, struct paracuda_config *config)
{
	__le32 raw[PARACUDA_CONFIG_WORDS];
	u32 *words = (u32 *)config;
	unsigned int i;

	BUILD_BUG_ON(sizeof(struct paracuda_config) != PARACUDA_SIZEOF_CONFIG);

	if (paracuda_config_room(vdev) < sizeof(raw)) {
		dev_info(&vdev->dev, "not a paracuda device: too little configuration space\n");
		return -ENODEV;
	}
	/* Magic and version first: what follows them depends on them. */
	__virtio_cread_many(vdev, 0, raw, 2, sizeof(*raw));
	if (le32_to_cpu(raw[0]) != PARACUDA_MAGIC) {
		dev_info(&vdev->dev, "not a paracuda device: magic %#x\n", le32_to_cpu(raw[0]));
		return -ENODEV;
	}
	if (le32_to_cpu(raw[1]) != PARACUDA_VERSION) {
		dev_err(&vdev->dev, "device speaks protocol version %u, this driver %u: install the guest package of the host's version\n",
			le32_to_cpu(raw[1]), PARACUDA_VERSION);
		return -ENODEV;
	}
	__virtio_cread_many(vdev, 2 * sizeof(*raw), raw + 2, ARRAY_SIZE(raw) - 2, sizeof(*raw));
	for (i = 0; i < ARRAY_SIZE(raw); i++)
		words[i] = le32_to_cpu(raw[i]);

	return paracuda_config_valid(vdev, config) ? 0 : -ENODEV;
}

/* A copy of the configuration as it was last read. */
void paracuda_config_get(struct paracuda_device *dev, struct paracuda_config *config)
{
	spin_lock(&dev->config_lock);
	*config = dev->config;
	spin_unlock(&dev->config_lock);
}

/* What a channel's process follows at once. */
void paracuda_config_publish(struct paracuda_channel *ch, const struct paracuda_config *config)
{
	WRITE_ONCE(ch->header->batch_commands, config->batch_commands);
	WRITE_ONCE(ch->header->spin_guest_us, config->spin_guest_us);
	WRITE_ONCE(ch->header->inline_limit, config->inline_limit);
	WRITE_ONCE(ch->header->config_flags, config->flags);
}

/* The configuration changed: open channels follow it, except for the arena's size. */
void paracuda_config_work(struct work_struct *work)
{
	struct paracuda_device *dev = container_of(work, struct paracuda_device, config_work);
	struct paracuda_config config;
	unsigned int i;

	if (dev->vdev->config->get_status(dev->vdev) & VIRTIO_CONFIG_S_NEEDS_RESET) {
		dev_err(&dev->vdev->dev, "device needs a reset\n");
		paracuda_fail(dev);
		return;
	}
	if (paracuda_config_read(dev->vdev, &config))
		return;
	spin_lock(&dev->config_lock);
	dev->config = config;
	spin_unlock(&dev->config_lock);

	mutex_lock(&dev->lock);
	for (i = 0; i < dev->channels; i++)
		if (dev->queues[i].channel)
			paracuda_config_publish(dev->queues[i].channel, &config);
	mutex_unlock(&dev->lock);
}
