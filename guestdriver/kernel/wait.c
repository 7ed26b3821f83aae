// SPDX-License-Identifier: GPL-2.0
/* Sleeping and polling until a word of the arena changes. */

#include <linux/hrtimer.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "paracuda.h"

struct paracuda_waiter {
	struct wait_queue_entry entry;
	struct paracuda_channel *ch;
	const u32 *word;
	u32 value;
	bool held;	/* the VM's turn is awaited */
};

/* The VM's turn has begun, so that the answer may come soon: the thread is to poll for it. */
static bool paracuda_wait_turn(const struct paracuda_waiter *w)
{
	return w->held && !READ_ONCE(w->ch->header->held);
}

static bool paracuda_wait_over(const struct paracuda_waiter *w)
{
	return READ_ONCE(*w->word) != w->value || READ_ONCE(w->ch->dead) || paracuda_wait_turn(w);
}

/* The result of a wait that is over, or that ended with err. */
static int paracuda_wait_result(const struct paracuda_waiter *w, int err)
{
	if (READ_ONCE(*w->word) != w->value)
		return 0;
	if (READ_ONCE(w->ch->dead))
		return paracuda_channel_error(w->ch);
	return paracuda_wait_turn(w) ? -EAGAIN : err;
}

/*
 * Wakes only those whose word has changed. An EVENT is available to the worker again when this runs
 * (paracuda_take_back), so that a change which this misses is followed by another EVENT.
 */
static int paracuda_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	if (!paracuda_wait_over(container_of(entry, struct paracuda_waiter, entry)))
		return 0;
	return default_wake_function(entry, mode, flags, key);
}

/*
 * Sleeps until it is woken or time is up. In User Mode Linux, whose interrupts may get lost
 * (paracuda_control_poll), it sleeps only for a while, and then looks for EVENT.
 */
static int paracuda_wait_once(struct paracuda_waiter *w, ktime_t *expires)
{
	ktime_t look;
	int err;

	if (IS_ENABLED(CONFIG_UML)) {
		look = ktime_add_ns(ktime_get(), PARACUDA_WAIT_POLL);
		if (!expires || ktime_before(look, *expires))
			expires = &look;
	}
	err = schedule_hrtimeout_range(expires, current->timer_slack_ns, HRTIMER_MODE_ABS);
	if (err || expires != &look)
		return err;
	paracuda_channel_reap(w->ch, 0);
	return -EINTR;
}

static int paracuda_wait_sleep(struct paracuda_waiter *w, ktime_t *expires)
{
	int err = 0;

	add_wait_queue(&w->ch->wait, &w->entry);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (paracuda_wait_over(w))
			break;
		if (signal_pending(current)) {
			err = -EINTR;
			break;
		}
		if (err)
			break;
		if (!paracuda_wait_once(w, expires))
			err = -ETIMEDOUT;	/* unless the wait is over after all */
	}
	__set_current_state(TASK_RUNNING);
	remove_wait_queue(&w->ch->wait, &w->entry);
	return paracuda_wait_result(w, err);
}

/* Reads what the process wants to wait for. */
static int paracuda_wait_init(struct paracuda_waiter *w, struct paracuda_channel *ch,
			      struct paracuda_ioctl_wait __user *user, u64 *timeout)
{
	struct paracuda_ioctl_wait arg;
	struct page *page;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.offset % sizeof(u32) ||
	    arg.offset >= (u64)ch->arena.count << PAGE_SHIFT)
		return -EINVAL;
	page = ch->arena.pages[arg.offset >> PAGE_SHIFT];
	w->held = false;
	w->ch = ch;
	w->word = page_address(page) + offset_in_page(arg.offset);
	w->value = arg.value;
	*timeout = arg.timeout_ns;
	return 0;
}

int paracuda_wait(struct paracuda_channel *ch, struct paracuda_ioctl_wait __user *user)
{
	struct paracuda_waiter w;
	ktime_t expires = 0;
	u64 timeout;
	int err;

	err = paracuda_wait_init(&w, ch, user, &timeout);
	if (err)
		return err;
	if (timeout)
		expires = ktime_add_safe(ktime_get(),
					 ns_to_ktime(min_t(u64, timeout, KTIME_MAX)));

	w.held = READ_ONCE(ch->header->held);
	init_waitqueue_func_entry(&w.entry, paracuda_wake);
	w.entry.private = current;

	paracuda_place(ch);
	/* From here on everything that the worker returns is noticed at once. */
	paracuda_sleepers_add(ch, 1);
	err = paracuda_wait_sleep(&w, timeout ? &expires : NULL);
	paracuda_sleepers_add(ch, -1);
	return err;
}

/*
 * Whether another thread wants this processor, or has had it. A preemptible kernel switches without
 * asking: `switches` is how often it had switched away from this thread before. A kernel with lazy
 * preemption has a flag of its own for a thread that can wait until the next tick.
 */
static bool paracuda_contended(unsigned long switches)
{
#ifdef TIF_NEED_RESCHED_LAZY
	if (test_thread_flag(TIF_NEED_RESCHED_LAZY))
		return true;
#endif
	return need_resched() || current->nivcsw != switches;
}

/*
 * How long to poll at a time. In User Mode Linux a process and the kernel are two processes of the
 * host, and one that has slept for long takes long to wake up: a wait of 4 ms for the device took
 * 95 us more, with short turns 31. Changing between them so often holds up other threads of the
 * process: if there are any, the time is the one asked for.
 */
static u64 paracuda_spin_time(u64 asked)
{
	u64 most = PARACUDA_SPIN_MAX;

	if (IS_ENABLED(CONFIG_UML) && get_nr_threads(current) == 1)
		most = PARACUDA_SPIN_ALONE;
	return asked ? min(asked, most) : most;
}

/*
 * Polls in the kernel, which knows whether another thread wants the processor. In User Mode Linux,
 * where a process runs one thread at a time, the others can go on meanwhile.
 */
int paracuda_spin(struct paracuda_channel *ch, struct paracuda_ioctl_wait __user *user)
{
	unsigned long switches = current->nivcsw;
	struct paracuda_waiter w;
	u64 timeout, begin;
	int err;

	err = paracuda_wait_init(&w, ch, user, &timeout);
	if (err)
		return err;
	timeout = paracuda_spin_time(timeout);
	begin = ktime_get_ns();
	while (!paracuda_wait_over(&w)) {
		if (signal_pending(current))
			err = -EINTR;
		else if (paracuda_contended(switches))
			err = -EAGAIN;
		else if (ktime_get_ns() - begin >= timeout)
			err = -ETIMEDOUT;
		if (err)
			break;
		cpu_relax();
	}
	return paracuda_wait_result(&w, err);
}
