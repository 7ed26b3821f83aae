// SPDX-License-Identifier: GPL-2.0
/* Maps that the worker has returned: they are released, at once or later. */

#include <linux/mm.h>
#include <linux/slab.h>

#include "paracuda.h"

#ifdef CONFIG_UML
void paracuda_let_go(struct page *page, unsigned long count, bool dirty)
{
	for (; count; count--, page++) {
		if (dirty && !PageDirty(page))
			set_page_dirty_lock(page);
		if (dirty)
			folio_put_refs(page_folio(page), GUP_PIN_COUNTING_BIAS);
		else
			put_page(page);
	}
}
#endif

/* Makes somebody look for returned maps later. Under queue->lock. */
void paracuda_poll_later(struct paracuda_channel *ch)
{
	if (ch->queue->channel == ch)
		queue_delayed_work(paracuda_wq, &ch->poll, msecs_to_jiffies(PARACUDA_POLL_MS));
}

/* Makes somebody look after so many jiffies, whatever was planned. Under queue->lock. */
void paracuda_poll_after(struct paracuda_channel *ch, unsigned long delay)
{
	mod_delayed_work(paracuda_wq, &ch->poll, delay);
}

/* The mover still copies, for a worker that lies: looks again later. */
static void paracuda_map_later(struct paracuda_channel *ch, struct paracuda_token *map)
{
	spin_lock_irq(&ch->queue->lock);
	list_add_tail(&map->node, &ch->returned);
	paracuda_poll_later(ch);
	spin_unlock_irq(&ch->queue->lock);
}

/*
 * Unpins and frees a map that the worker doesn't have: it never got it, or has returned it. If the
 * mover uses its pages all the same, that is done later.
 */
void paracuda_map_free(struct paracuda_channel *ch, struct paracuda_token *map)
{
	bool dirty = map->flags & PARACUDA_MAP_FLAG_WRITE;
	unsigned int i;

	if (!paracuda_unvouch(ch, map)) {
		paracuda_map_later(ch, map);
		return;
	}
	for (i = 0; i < map->runs; i++) {
		struct paracuda_run *run = paracuda_token_run(map, i);
		struct page *page = pfn_to_page(PHYS_PFN(run->address));

		if (i % PARACUDA_RUNS_PER_LIST == 0)
			cond_resched();
		if (map->held)
			paracuda_let_go(page, run->bytes >> PAGE_SHIFT, dirty);
		else
			unpin_user_page_range_dirty_lock(page, run->bytes >> PAGE_SHIFT, dirty);
	}
	if (map->pinned)
		paracuda_pin_uncharge(ch, map->pinned, paracuda_oneshot(map->flags));
	if (map->id)
		xa_erase(&ch->maps, map->id);
	paracuda_token_end(ch, map);
	if (paracuda_stays(map))
		kfree_rcu(map, rcu);	/* paracuda_take_kept() may look at it */
	else
		kfree(map);
}

/* Releases maps that the worker has returned, in order, and at most so many pages. */
void paracuda_map_collect(struct paracuda_channel *ch, unsigned long pages)
{
	struct paracuda_token *map, *next;
	LIST_HEAD(returned);

	spin_lock_irq(&ch->queue->lock);
	list_splice_init(&ch->returned, &returned);
	spin_unlock_irq(&ch->queue->lock);

	list_for_each_entry_safe(map, next, &returned, node) {
		if (map->pinned > pages)
			break;
		pages -= map->pinned;
		list_del(&map->node);
		paracuda_map_free(ch, map);
	}
	if (list_empty(&returned))
		return;
	spin_lock_irq(&ch->queue->lock);
	list_splice(&returned, &ch->returned);
	paracuda_poll_later(ch);
	spin_unlock_irq(&ch->queue->lock);
}
