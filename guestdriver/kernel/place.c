// SPDX-License-Identifier: GPL-2.0
/*
 * Where a queue's interrupts are raised. Each queue has a vector of its own where the transport has
 * enough; it is to wake a thread on the processor on which the thread sleeps, so that no other
 * processor is disturbed. Moving a vector takes calls of the host's, so it is done rarely, and only
 * for a thread that is about to sleep. What queues share goes where the last one slept: a vector,
 * or the line of a PCI device without vectors, as QEMU's generic device is. Waking an emulated
 * processor only for it to wake another one takes as long as everything else that an interrupt
 * does.
 */

#include <linux/interrupt.h>
#include <linux/pci.h>
#include <linux/virtio_config.h>

#include "paracuda.h"

/* virtqueue_set_affinity() moves vectors alone. */
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
