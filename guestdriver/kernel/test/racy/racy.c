// SPDX-License-Identifier: GPL-2.0
/*
 * A module with a data race, by which a test sees that the kernel which looks for them finds one.
 * Loading it fails with ENOTBLK once the race is over: nothing of it stays.
 */

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

#define RACY_SECONDS 5

static unsigned long racy_count;
static DECLARE_COMPLETION(racy_over);

static noinline void racy_increment(void)
{
	racy_count++;
}

static int racy_thread(void *unused)
{
	unsigned long end = jiffies + RACY_SECONDS * HZ;

	while (time_before(jiffies, end)) {
		for (int i = 0; i < 1000; i++)
			racy_increment();
		cond_resched();
	}
	complete(&racy_over);
	return 0;
}

static int __init racy_init(void)
{
	int cpu, begun = 0;

	for_each_online_cpu(cpu) {
		struct task_struct *t = kthread_create(racy_thread, NULL, "racy/%d", cpu);

		if (IS_ERR(t))
			break;
		kthread_bind(t, cpu);
		wake_up_process(t);
		begun++;
	}
	while (begun-- > 0)
		wait_for_completion(&racy_over);
	return -ENOTBLK;
}

module_init(racy_init);

MODULE_DESCRIPTION("A data race, for a test");
MODULE_LICENSE("GPL");
