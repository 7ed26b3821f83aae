// SPDX-License-Identifier: GPL-2.0
/*
 * The names of the device nodes. Programs, and tools that pass nodes on to containers, look for
 * /dev/paracuda first: that is a working device, if there is one.
 */

#include "paracuda.h"

static DEFINE_MUTEX(nodes_lock);
static LIST_HEAD(nodes);	/* under nodes_lock: devices, as they came */

static void paracuda_node_drop(struct paracuda_device *dev)
{
	if (dev->number < 0)
		return;
	misc_deregister(&dev->misc);
	dev->number = -1;
}

/* Makes /dev/paracuda; further devices have their number at the end. */
static void paracuda_node_make(struct paracuda_device *dev, int number)
{
	int err;

	snprintf(dev->name, sizeof(dev->name), number ? "paracuda%d" : "paracuda", number);
	dev->misc.minor = MISC_DYNAMIC_MINOR;
	dev->misc.name = dev->name;
	dev->misc.mode = 0666;
	dev->misc.fops = &paracuda_fops;
	err = misc_register(&dev->misc);
	if (err) {
		dev_err(dev->misc.parent, "no /dev/%s: %d\n", dev->name, err);
		return;
	}
	dev->number = number;
	dev_info(dev->misc.parent, "/dev/%s: %u channels, arena of %u KiB\n", dev->name,
		 dev->channels, dev->settings.arena_bytes >> 10);
}

/* The number that a device is to have: the next among working ones; -1 for none. */
static int paracuda_node_want(struct paracuda_device *dev, bool others, int *next)
{
	if (!READ_ONCE(dev->failed))
		return (*next)++;
	return others ? -1 : dev->number;
}

/* Under nodes_lock. */
static void paracuda_nodes_number(void)
{
	struct paracuda_device *dev;
	bool live = false;
	int next = 0;

	list_for_each_entry(dev, &nodes, node)
		live |= !READ_ONCE(dev->failed);
	/* Names that another device is to get must be free first. */
	list_for_each_entry(dev, &nodes, node) {
		dev->want = paracuda_node_want(dev, live, &next);
		if (dev->number != dev->want)
			paracuda_node_drop(dev);
	}
	list_for_each_entry(dev, &nodes, node)
		if (dev->number != dev->want)
			paracuda_node_make(dev, dev->want);
}

/* A device has failed: a working one may get its name. */
void paracuda_nodes_settle(void)
{
	mutex_lock(&nodes_lock);
	paracuda_nodes_number();
	mutex_unlock(&nodes_lock);
}

/* Gives a device its node. */
int paracuda_node_add(struct paracuda_device *dev)
{
	int err = 0;

	mutex_lock(&nodes_lock);
	dev->number = -1;
	dev->misc.parent = &dev->vdev->dev;
	list_add_tail(&dev->node, &nodes);
	paracuda_nodes_number();
	if (dev->number < 0) {
		list_del(&dev->node);
		err = -ENODEV;
	}
	mutex_unlock(&nodes_lock);
	return err;
}

/* A device keeps its name while it is away: its node then has no parent, and later a new one. */
void paracuda_node_part(struct paracuda_device *dev, struct device *parent)
{
	int err = 0;

	mutex_lock(&nodes_lock);
	dev->misc.parent = parent;
	if (dev->number >= 0)
		err = device_move(dev->misc.this_device, parent, DPM_ORDER_NONE);
	mutex_unlock(&nodes_lock);
	if (err)
		pr_warn("paracuda: /dev/%s is not where its device is in sysfs: %d\n", dev->name,
			err);
}

void paracuda_node_remove(struct paracuda_device *dev)
{
	mutex_lock(&nodes_lock);
	paracuda_node_drop(dev);
	list_del(&dev->node);
	paracuda_nodes_number();
	mutex_unlock(&nodes_lock);
}
