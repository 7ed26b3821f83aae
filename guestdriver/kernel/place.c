// SPDX-License-Identifier: GPL-2.0
/*
 * Where a queue's interrupts are raised. Each queue has a vector of its own where the transport has
 * enough; it is to wake a thread on the processor on which that sleeps, so that no other processor
 * is disturbed. To move a vector takes calls of the host's, so it is done rarely, and only for a
 * thread that is about to sleep. Vectors that queues share go where the last one slept.
 */

#include <linux/virtio_config.h>

#include "paracuda.h"

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
