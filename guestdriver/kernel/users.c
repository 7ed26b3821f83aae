// SPDX-License-Identifier: GPL-2.0
/* The users of a device, and what each has, so that no user can take everything. */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "paracuda.h"

static unsigned int paracuda_user_share = 75;
module_param_named(user_share, paracuda_user_share, uint, 0644);
MODULE_PARM_DESC(user_share,
		 "Percent of channels and max_pinned_mb for a user without CAP_SYS_RESOURCE (75)");

enum paracuda_heed { PARACUDA_HEED_NEVER, PARACUDA_HEED_ALWAYS, PARACUDA_HEED_SET };

static int paracuda_heed_memlock = PARACUDA_HEED_SET;

static int paracuda_heed_put(const char *value, const struct kernel_param *kp)
{
	int heed = PARACUDA_HEED_SET;
	bool always;

	if (!sysfs_streq(value, "auto")) {
		int ret = kstrtobool(value, &always);

		if (ret)
			return ret;
		heed = always ? PARACUDA_HEED_ALWAYS : PARACUDA_HEED_NEVER;
	}
	WRITE_ONCE(paracuda_heed_memlock, heed);
	return 0;
}

static int paracuda_heed_get(char *buffer, const struct kernel_param *kp)
{
	static const char *const words[] = { "N", "Y", "auto" };

	return sysfs_emit(buffer, "%s\n", words[READ_ONCE(paracuda_heed_memlock)]);
}

static const struct kernel_param_ops paracuda_heed_ops = {
	.set = paracuda_heed_put,
	.get = paracuda_heed_get,
};
module_param_cb(heed_memlock, &paracuda_heed_ops, NULL, 0644);
MODULE_PARM_DESC(heed_memlock,
		 "Whether RLIMIT_MEMLOCK bounds what stays pinned: Y, N, or if it was set (auto)");

/* What one user may have of all: at least one. */
unsigned long paracuda_share(unsigned long all)
{
	unsigned int percent = min(READ_ONCE(paracuda_user_share), 100U);

	return max(1UL, DIV_ROUND_UP(all * percent, 100));
}

static struct paracuda_user *paracuda_user_find(struct paracuda_device *dev, kuid_t uid)
{
	struct paracuda_user *user;

	list_for_each_entry(user, &dev->bounds.users, node)
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

/*
 * Whose the caller's share is. A user may have other users' numbers in user namespaces of his, for
 * rootless containers: they are his. In one that root has made everybody is who he is.
 */
static kuid_t paracuda_current_owner(void)
{
	struct user_namespace *ns;
	kuid_t uid = current_uid();

	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			uid = ns->owner;
	return uid;
}

/* The caller's user, with a reference. There are never more users than arenas and callers. */
struct paracuda_user *paracuda_user_get(struct paracuda_device *dev)
{
	struct paracuda_user *user, *new;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return NULL;
	new->uid = paracuda_current_owner();
	spin_lock(&dev->bounds.lock);
	user = paracuda_user_find(dev, new->uid);
	if (!user) {
		list_add(&new->node, &dev->bounds.users);
		swap(user, new);
	}
	user->refs++;
	spin_unlock(&dev->bounds.lock);
	kfree(new);
	return user;
}

void paracuda_user_put(struct paracuda_device *dev, struct paracuda_user *user)
{
	bool last;

	spin_lock(&dev->bounds.lock);
	last = !--user->refs;
	if (last)
		list_del(&user->node);
	spin_unlock(&dev->bounds.lock);
	if (last)
		kfree(user);
}

/*
 * Whether somebody has set this limit. Nobody has if it is the kernel's default, or the limit of
 * the first process: systemd raises its own, and logins inherit it. Neither is meant for GPUs:
 * other drivers ignore this limit.
 */
static bool paracuda_memlock_set(unsigned long limit)
{
	/* The first process lives as long as the kernel. */
	unsigned long first = task_rlimit(init_pid_ns.child_reaper, RLIMIT_MEMLOCK);

	return limit != MLOCK_LIMIT && limit != first;
}

static bool paracuda_memlock_heeded(unsigned long limit)
{
	switch (READ_ONCE(paracuda_heed_memlock)) {
	case PARACUDA_HEED_NEVER:
		return false;
	case PARACUDA_HEED_ALWAYS:
		return !capable(CAP_IPC_LOCK);
	default:
		return paracuda_memlock_set(limit) && !capable(CAP_IPC_LOCK);
	}
}

/* Counts pages that stay pinned as VmPin of /proc/PID/status, where others look for that. */
int paracuda_mm_charge(struct mm_struct *mm, unsigned long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK);
	u64 now = atomic64_add_return(pages, &mm->pinned_vm);

	if (now > limit >> PAGE_SHIFT && paracuda_memlock_heeded(limit)) {
		paracuda_mm_uncharge(mm, pages);
		return -ENOMEM;
	}
	return 0;
}

void paracuda_mm_uncharge(struct mm_struct *mm, unsigned long pages)
{
	atomic64_sub(pages, &mm->pinned_vm);
}
