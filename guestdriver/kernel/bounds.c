// SPDX-License-Identifier: GPL-2.0
/*
 * Bounds how much of the guest's memory the users of a device may take, where nobody else counts
 * it.
 */

#include <linux/moduleparam.h>
#include <linux/sched/signal.h>

#include "paracuda.h"

/* One for each channel, and as many again that are still mapped, or being closed. */
#define PARACUDA_ARENAS_PER_CHANNEL	2

static unsigned int paracuda_max_pinned_mb;
module_param_named(max_pinned_mb, paracuda_max_pinned_mb, uint, 0644);
MODULE_PARM_DESC(max_pinned_mb,
		 "Memory that may be pinned for a device at a time, MiB (0: half of RAM)");

static unsigned long paracuda_pin_limit(void)
{
	unsigned int mb = READ_ONCE(paracuda_max_pinned_mb);

	return mb ? (unsigned long)mb << (20 - PAGE_SHIFT) : totalram_pages() / 2;
}

static bool paracuda_fits(unsigned long limit, unsigned long used, unsigned long pages)
{
	return pages <= limit && used <= limit - pages;
}

/* Whether there is room for pages, in addition to those of all users and of the channel's user. */
static bool paracuda_room(const struct paracuda_channel *ch, unsigned long all, unsigned long own,
			  unsigned long pages)
{
	unsigned long limit = paracuda_pin_limit();

	return paracuda_fits(limit, all, pages) &&
	       (ch->privileged || paracuda_fits(paracuda_share(limit), own, pages));
}

/* Whether so many pages can be pinned now. */
bool paracuda_pin_room(struct paracuda_channel *ch, unsigned long pages)
{
	return paracuda_room(ch, READ_ONCE(ch->dev->bounds.pinned), READ_ONCE(ch->user->pinned),
			     pages);
}

static int paracuda_pin_count(struct paracuda_channel *ch, unsigned long pages, bool oneshot)
{
	struct paracuda_bounds *all = &ch->dev->bounds;
	struct paracuda_user *user = ch->user;
	int err = 0;

	spin_lock(&all->lock);
	if (paracuda_room(ch, all->pinned, user->pinned, pages)) {
		WRITE_ONCE(all->pinned, all->pinned + pages);
		WRITE_ONCE(user->pinned, user->pinned + pages);
		if (oneshot) {
			all->passing += pages;
			user->passing += pages;
		}
	} else {
		err = paracuda_room(ch, all->pinned - all->passing, user->pinned - user->passing,
				    pages) ? -EBUSY : -ENOMEM;
	}
	spin_unlock(&all->lock);
	return err;
}

/*
 * Counts pages that are about to be pinned. -EBUSY: there will be room when copies that are under
 * way are done. -ENOMEM: there is none.
 */
int paracuda_pin_charge(struct paracuda_channel *ch, unsigned long pages, bool oneshot)
{
	int err;

	if (!oneshot && paracuda_mm_charge(ch->mm, pages))
		return -ENOMEM;
	err = paracuda_pin_count(ch, pages, oneshot);
	if (err && !oneshot)
		paracuda_mm_uncharge(ch->mm, pages);
	return err;
}

void paracuda_pin_uncharge(struct paracuda_channel *ch, unsigned long pages, bool oneshot)
{
	struct paracuda_bounds *all = &ch->dev->bounds;
	struct paracuda_user *user = ch->user;

	spin_lock(&all->lock);
	WRITE_ONCE(all->pinned, all->pinned - pages);
	WRITE_ONCE(user->pinned, user->pinned - pages);
	if (oneshot) {
		all->passing -= pages;
		user->passing -= pages;
	}
	spin_unlock(&all->lock);
	if (!oneshot)
		paracuda_mm_uncharge(ch->mm, pages);
}

/*
 * Counts pages for cuMemHostAlloc that are about to be allocated. Pages that couldn't be pinned
 * must not cost other processes their memory. In User Mode Linux, where no process is charged for
 * them (host_alloc.c), they are counted as allocated, too.
 */
bool paracuda_host_charge(struct paracuda_channel *ch, unsigned long pages)
{
	struct paracuda_bounds *all = &ch->dev->bounds;
	struct paracuda_user *user = ch->user;
	bool may;

	spin_lock(&all->lock);
	may = paracuda_room(ch, all->pinned - all->passing, user->pinned - user->passing, pages) &&
	      paracuda_room(ch, all->host_pages, user->host_pages, pages);
	if (may && IS_ENABLED(CONFIG_UML)) {
		all->host_pages += pages;
		user->host_pages += pages;
	}
	spin_unlock(&all->lock);
	return may;
}

void paracuda_host_uncharge(struct paracuda_device *dev, struct paracuda_user *user,
			     unsigned long pages)
{
	spin_lock(&dev->bounds.lock);
	dev->bounds.host_pages -= pages;
	user->host_pages -= pages;
	spin_unlock(&dev->bounds.lock);
}

static bool paracuda_arena_take(struct paracuda_device *dev, struct paracuda_user *user,
				bool privileged)
{
	unsigned long share = paracuda_share(dev->channels);
	bool may;

	spin_lock(&dev->bounds.lock);
	may = dev->bounds.arenas < PARACUDA_ARENAS_PER_CHANNEL * dev->channels &&
	      (privileged || user->arenas < PARACUDA_ARENAS_PER_CHANNEL * share);
	if (may) {
		dev->bounds.arenas++;
		user->arenas++;
	}
	spin_unlock(&dev->bounds.lock);
	return may;
}

/*
 * Counts an arena that is about to be allocated, and waits while there are too many. A process
 * keeps an ended channel's arena while it has it mapped.
 */
int paracuda_arena_charge(struct paracuda_device *dev, struct paracuda_user *user, bool privileged)
{
	bool taken = false;
	long left;

	left = wait_event_killable_timeout(dev->wait,
					   (taken = paracuda_arena_take(dev, user, privileged)) ||
					   READ_ONCE(dev->gone), PARACUDA_CLAIM_TIMEOUT);
	if (taken)
		return 0;
	if (left < 0)
		return -EINTR;
	return left ? -ENODEV : -EBUSY;
}

void paracuda_arena_uncharge(struct paracuda_device *dev, struct paracuda_user *user)
{
	spin_lock(&dev->bounds.lock);
	dev->bounds.arenas--;
	user->arenas--;
	spin_unlock(&dev->bounds.lock);
	wake_up_all(&dev->wait);
}
