// SPDX-License-Identifier: GPL-2.0
/* Pinning ranges of a process and handing them to its worker. */

#include <linux/overflow.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "paracuda.h"

#define PARACUDA_PIN_BATCH	(PAGE_SIZE / sizeof(struct page *))

static int paracuda_map_check(const struct paracuda_ioctl_map *arg)
{
	u64 end;

	if (arg->flags & ~(PARACUDA_MAP_FLAG_WRITE | PARACUDA_MAP_FLAG_ONESHOT))
		return -EINVAL;
	if (!arg->bytes || arg->bytes > PARACUDA_MAP_BYTES_MAX)
		return -EINVAL;
	if (check_add_overflow(arg->address, arg->bytes, &end) || end > ULONG_MAX)
		return -EFAULT;
	if (!access_ok((void __user *)(unsigned long)arg->address, arg->bytes))
		return -EFAULT;
	return 0;
}

static unsigned int paracuda_gup_flags(u32 flags)
{
	unsigned int gup = 0;

	if (flags & PARACUDA_MAP_FLAG_WRITE)
		gup |= FOLL_WRITE;
	/* In User Mode Linux the host can't see the zero page; with this flag it isn't used. */
	if (!(flags & PARACUDA_MAP_FLAG_ONESHOT) || IS_ENABLED(CONFIG_UML))
		gup |= FOLL_LONGTERM;
	return gup;
}

static int paracuda_pin(unsigned long start, unsigned long count, unsigned int gup,
			struct page **pages)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	/*
	 * On these kernels, a page pinned for reading is no longer the process's once that writes
	 * to it.
	 */
	if ((gup & (FOLL_LONGTERM | FOLL_WRITE)) == FOLL_LONGTERM) {
		int n = pin_user_pages_fast(start, count, gup | FOLL_WRITE | FOLL_FORCE, pages);

		if (n != -EFAULT)	/* shared memory that may not be written */
			return n;
	}
#endif
	return pin_user_pages_fast(start, count, gup, pages);
}

static void paracuda_unpin_rest(struct paracuda_token *map, struct page **pages, int n)
{
	if (!map->held) {
		unpin_user_pages(pages, n);
		return;
	}
	while (n)
		paracuda_let_go(pages[--n], 1, map->flags & PARACUDA_MAP_FLAG_WRITE);
}

/* Appends pinned pages to the list of runs; unpins those that don't fit. */
static int paracuda_map_append(struct paracuda_channel *ch, struct paracuda_token *map,
			       struct page **pages, int n)
{
	int i, err;

	for (i = 0; i < n; i++) {
		err = paracuda_token_append(ch, map, pages[i]);
		if (err) {
			paracuda_unpin_rest(map, pages + i, n - i);
			return err;
		}
	}
	return 0;
}

/* Pins the pages one batch after the other. What was pinned stays in map when it fails. */
static int paracuda_map_pin(struct paracuda_channel *ch, struct paracuda_token *map,
			    unsigned long start, unsigned long left, struct page **pages)
{
	unsigned int gup = paracuda_gup_flags(map->flags);
	int n, err;

	while (left) {
		if (fatal_signal_pending(current))
			return -EINTR;
		if (READ_ONCE(ch->dead))
			return -EIO;
		n = min(left, PARACUDA_PIN_BATCH);
		n = map->held ? paracuda_hold(start, n, gup, pages) :
				paracuda_pin(start, n, gup, pages);
		if (n <= 0)
			return n == -ENOMEM || n == -EINTR ? n : -EFAULT;
		err = paracuda_map_append(ch, map, pages, n);
		if (err)
			return err;
		start += (unsigned long)n << PAGE_SHIFT;
		left -= n;
		cond_resched();
	}
	return 0;
}

static unsigned long paracuda_map_pages(const struct paracuda_ioctl_map *arg)
{
	return (offset_in_page(arg->address) + arg->bytes + PAGE_SIZE - 1) >> PAGE_SHIFT;
}

/* Gives the map an id, by which it is found if it stays. */
static int paracuda_map_number(struct paracuda_channel *ch, struct paracuda_token *map)
{
	void *entry = paracuda_stays(map) ? map : xa_mk_value(0);
	int err;

	err = xa_alloc_cyclic(&ch->maps, &map->id, entry, XA_LIMIT(1, PARACUDA_MAP_ID_MAX),
			      &ch->next_id, GFP_KERNEL);
	if (err < 0) {
		map->id = 0;	/* it may be set to another map's */
		return err;
	}
	map->header->id = map->id;
	return 0;
}

/* Pins the range that arg describes. */
static struct paracuda_token *paracuda_map_make(struct paracuda_channel *ch,
						struct paracuda_ioctl_map *arg)
{
	unsigned long start = untagged_addr((unsigned long)arg->address);
	unsigned long offset = offset_in_page(start);
	unsigned long count = paracuda_map_pages(arg);
	struct paracuda_token *map;
	struct page **pages;
	int err;

	map = kmalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);
	if (!map)
		return ERR_PTR(-ENOMEM);
	if (paracuda_token_init(ch, map, PARACUDA_CHAIN_MAP)) {
		kfree(map);
		return ERR_PTR(-ENOMEM);
	}
	map->flags = arg->flags;
	map->header->bytes = arg->bytes;
	map->header->address = arg->address;
	map->header->offset = offset;
	map->header->flags = arg->flags;

	pages = (struct page **)__get_free_page(GFP_KERNEL);
	err = pages ? paracuda_pin_charge(ch, count, paracuda_oneshot(map->flags)) : -ENOMEM;
	if (!err) {
		map->pinned = count;
		map->held = paracuda_holds(start - offset, count, map->flags);
		err = paracuda_map_pin(ch, map, start - offset, count, pages);
	}
	free_page((unsigned long)pages);
	if (!err)
		err = paracuda_map_number(ch, map);
	if (err) {
		paracuda_map_free(ch, map);
		return ERR_PTR(err);
	}
	paracuda_vouch(map);
	return map;
}

int paracuda_map(struct paracuda_channel *ch, struct paracuda_ioctl_map __user *user)
{
	struct paracuda_ioctl_map arg;
	struct paracuda_token *map;
	int err;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	err = paracuda_map_check(&arg);
	if (err)
		return err;

	/* Before the work of pinning it makes room in the queue. */
	err = paracuda_channel_room(ch, arg.flags);
	if (err)
		return READ_ONCE(ch->dead) ? paracuda_channel_error(ch) : err;

	if (!paracuda_pin_room(ch, paracuda_map_pages(&arg)))
		paracuda_map_collect(ch, ULONG_MAX);
	map = paracuda_map_make(ch, &arg);
	err = PTR_ERR_OR_ZERO(map);
	if (!err) {
		err = -EFAULT;
		if (!put_user(map->id, &user->id))
			err = paracuda_channel_post(ch, map);
		if (err)
			paracuda_map_free(ch, map);
	}
	if (err)
		paracuda_map_collect(ch, ULONG_MAX);
	return err == -EIO ? paracuda_channel_error(ch) : err;
}
