// SPDX-License-Identifier: GPL-2.0
/* How much of the guest's memory, of what nobody else counts, the users of a device may have. */

#include <linux/moduleparam.h>
#include <linux/sched/signal.h>

#include "paracuda.h"

/* One for each channel, and as many that are still mapped, or are being closed. */
#define PARACUDA_ARENAS_PER_CHANNEL	2

static unsigned int paracuda_max_pinned_mb;
module_param_named(max_pinned_mb, paracuda_max_pinned_mb, uint, 0644);
MODULE_PARM_DESC(max_pinned_mb, "Memory that processes may have pinned for a device at a time, MiB (0: half of RAM)");

static unsigned long paracuda_pin_limit(void)
{
	unsigned int mb = READ_ONCE(paracuda_max_pinned_mb);

	return mb ? (unsigned long)mb << (20 - PAGE_SHIFT) : totalram_pages() / 2;
}

static bool paracuda_fits(unsigned long used, unsigned long pages)
{
	unsigned long limit = paracuda_pin_limit();

	return pages <= limit && used <= limit - pages;
}

/* Whether so many pages can be pinned now. */
bool paracuda_pin_room(struct paracuda_device *dev, unsigned long pages)
{
	return paracuda_fits(READ_ONCE(dev->pinned), pages);
}

/*
 * Counts pages that are about to be pinned. -EBUSY: there is room for them once copies that are
 * under way are done. -ENOMEM: there is none.
 */
int paracuda_pin_charge(struct paracuda_device *dev, unsigned long pages, bool oneshot)
{
	int err = 0;

	spin_lock(&dev->bounds_lock);
	if (paracuda_fits(dev->pinned, pages)) {
		WRITE_ONCE(dev->pinned, dev->pinned + pages);
		if (oneshot)
			dev->passing += pages;
	} else {
		err = paracuda_fits(dev->pinned - dev->passing, pages) ? -EBUSY : -ENOMEM;
	}
	spin_unlock(&dev->bounds_lock);
	return err;
}

void paracuda_pin_uncharge(struct paracuda_device *dev, unsigned long pages, bool oneshot)
{
	spin_lock(&dev->bounds_lock);
	WRITE_ONCE(dev->pinned, dev->pinned - pages);
	if (oneshot)
		dev->passing -= pages;
	spin_unlock(&dev->bounds_lock);
}

/*
 * Counts pages for cuMemHostAlloc that are about to be allocated. What couldn't be pinned must not
 * cost other processes their memory. Only in a block, which counts for no process (host_block.c),
 * are they counted as allocated, too.
 */
bool paracuda_block_charge(struct paracuda_device *dev, unsigned long pages)
{
	bool may;

	spin_lock(&dev->bounds_lock);
	may = paracuda_fits(dev->pinned - dev->passing, pages) && paracuda_fits(dev->blocks, pages);
	if (may && IS_ENABLED(CONFIG_UML))
		dev->blocks += pages;
	spin_unlock(&dev->bounds_lock);
	return may;
}

void paracuda_block_uncharge(struct paracuda_device *dev, unsigned long pages)
{
	spin_lock(&dev->bounds_lock);
	dev->blocks -= pages;
	spin_unlock(&dev->bounds_lock);
}

static bool paracuda_arena_take(struct paracuda_device *dev)
{
	return atomic_add_unless(&dev->arenas, 1, PARACUDA_ARENAS_PER_CHANNEL * dev->channels);
}

/*
 * Counts an arena that is about to be allocated, when there are not too many any more. A process
 * keeps the arena of a channel that has ended while it has it mapped.
 */
int paracuda_arena_charge(struct paracuda_device *dev)
{
	bool taken = false;
	long left;

	left = wait_event_killable_timeout(dev->wait, (taken = paracuda_arena_take(dev)) ||
					   READ_ONCE(dev->gone), PARACUDA_CLAIM_TIMEOUT);
	if (taken)
		return 0;
	if (left < 0)
		return -EINTR;
	return left ? -ENODEV : -EBUSY;
}

void paracuda_arena_uncharge(struct paracuda_device *dev)
{
	atomic_dec(&dev->arenas);
	wake_up_all(&dev->wait);
}
