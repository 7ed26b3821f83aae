// SPDX-License-Identifier: GPL-2.0
/*
 * Where a queue's interrupts are raised. If the transport has enough vectors, each queue has its
 * own, which should interrupt the processor on which its thread sleeps: waking an emulated
 * processor only to wake another one takes as long as all the rest of an interrupt. Moving a vector
 * takes calls of the host, so it is done rarely, and only for a thread that is about to sleep. A
 * vector that queues share goes where the last thread slept; so does the line of a PCI device
 * without vectors, such as QEMU's generic device.
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

/* The calling thread is about to sleep. */
void paracuda_place(struct paracuda_channel *ch)
{
	struct paracuda_queue *q = ch->queue;
	unsigned long next = READ_ONCE(q->moved) + PARACUDA_PLACE_EVERY;
	int idx, cpu = raw_smp_processor_id();
	struct virtqueue *vq;

	if (READ_ONCE(q->placed) && (READ_ONCE(q->cpu) == cpu || time_before(jiffies, next)))
		return;
	idx = srcu_read_lock(&ch->dev->srcu);
	vq = READ_ONCE(q->vq);
	if (vq) {
		WRITE_ONCE(q->cpu, cpu);
		WRITE_ONCE(q->moved, jiffies);
		WRITE_ONCE(q->placed, true);
		virtqueue_set_affinity(vq, cpumask_of(cpu));
		paracuda_place_line(ch->dev->vdev, cpu);
	}
	srcu_read_unlock(&ch->dev->srcu, idx);
}

/* Undoes it, before the virtqueues end. */
void paracuda_unplace(struct paracuda_device *dev)
{
	unsigned int i;

	for (i = 0; i < dev->channels; i++) {
		if (dev->queues[i].placed)
			virtqueue_set_affinity(dev->vqs[1 + i], NULL);
		dev->queues[i].placed = false;
	}
}
