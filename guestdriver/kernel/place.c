// SPDX-License-Identifier: GPL-2.0
/*
 * Where interrupts are raised. If the transport has enough vectors, each queue has its own, which
 * should interrupt the processor on which its thread sleeps: waking an emulated processor only to
 * wake another one takes as long as all the rest of an interrupt. Moving a vector takes calls of
 * the host, so it is done rarely, and only for a thread that is about to sleep. An interrupt that
 * queues share goes where the last thread slept: a vector, or the line of a PCI device without
 * vectors, such as QEMU's generic device.
 */

#include <linux/interrupt.h>
#include <linux/pci.h>
#include <linux/virtio_config.h>

#include "paracuda.h"

/* virtqueue_set_affinity() moves vectors only, not lines. */
static void paracuda_place_line(struct virtio_device *vdev, int cpu)
{
	struct device *parent = vdev->dev.parent;

	if (dev_is_pci(parent) && !to_pci_dev(parent)->msix_enabled && to_pci_dev(parent)->irq)
		irq_set_affinity(to_pci_dev(parent)->irq, cpumask_of(cpu));
}

/*
 * Whether all queues have one interrupt: beside their own, there is a vector for changes of the
 * configuration, and one for the control queue. If there are that many but the guest has no more to
 * give, virtio shares one, too. That can't be seen here, so each queue then moves it as its own.
 */
static bool paracuda_shares_interrupt(struct paracuda_device *dev)
{
	bool shares = dev_is_pci(dev->vdev->dev.parent);
#ifdef CONFIG_PCI_MSI
	struct pci_dev *pci = to_pci_dev(dev->vdev->dev.parent);

	if (shares && pci->msix_enabled)
		shares = pci_msix_vec_count(pci) < (int)dev->channels + 2;
#endif
	return shares;
}

/* The device has got its virtqueues. */
void paracuda_place_begin(struct paracuda_device *dev)
{
	WRITE_ONCE(dev->shares_interrupt, paracuda_shares_interrupt(dev));
}

/* Raises a queue's interrupt there. The caller is the only one who moves any of the device. */
static void paracuda_place_on(struct paracuda_queue *q, struct paracuda_place *place, int cpu)
{
	struct virtqueue *vq;
	int idx;

	idx = srcu_read_lock(&q->dev->srcu);
	vq = READ_ONCE(q->vq);
	if (vq) {
		WRITE_ONCE(place->cpu, cpu);
		WRITE_ONCE(place->moved, jiffies);
		WRITE_ONCE(place->placed, true);
		virtqueue_set_affinity(vq, cpumask_of(cpu));
		paracuda_place_line(q->dev->vdev, cpu);
	}
	srcu_read_unlock(&q->dev->srcu, idx);
}

/* The calling thread is about to sleep. */
void paracuda_place(struct paracuda_channel *ch)
{
	struct paracuda_queue *q = ch->queue;
	struct paracuda_device *dev = q->dev;
	struct paracuda_place *place =
		READ_ONCE(dev->shares_interrupt) ? &dev->interrupt : &q->interrupt;
	unsigned long next = READ_ONCE(place->moved) + PARACUDA_PLACE_EVERY;
	int cpu = raw_smp_processor_id();

	if (READ_ONCE(place->placed) &&
	    (READ_ONCE(place->cpu) == cpu || time_before(jiffies, next)))
		return;
	/* If another thread moves one, this one tries again before it next sleeps. */
	if (mutex_trylock(&dev->place_lock)) {
		paracuda_place_on(q, place, cpu);
		mutex_unlock(&dev->place_lock);
	}
}

/* Undoes it, before the virtqueues end. A line stays where it is: its other devices share it. */
void paracuda_unplace(struct paracuda_device *dev)
{
	struct paracuda_place *own;
	unsigned int i;

	for (i = 0; i < dev->channels; i++) {
		own = &dev->queues[i].interrupt;
		if (own->placed || dev->interrupt.placed)
			virtqueue_set_affinity(dev->vqs[1 + i], NULL);
		WRITE_ONCE(own->placed, false);
	}
	WRITE_ONCE(dev->interrupt.placed, false);
}
