/* SPDX-License-Identifier: GPL-2.0 */
/* What users may take of memory and channels (users.c, bounds.c). paracuda.h includes it. */
#ifndef PARACUDA_BOUNDS_H
#define PARACUDA_BOUNDS_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "paracuda_ioctl.h"

struct mm_struct;
struct paracuda_channel;
struct paracuda_device;

/* What the channels of a device have together. */
struct paracuda_bounds {
	spinlock_t lock;
	struct list_head users;		/* under lock, as what follows */
	unsigned long pinned;		/* pages; read without the lock, too */
	unsigned long passing;		/* of these, for ONESHOT maps */
	unsigned long host_pages;	/* pages of host_alloc.c */
	unsigned int arenas;		/* alive */
};

/* What the channels of one user have. All but uid is guarded by dev->bounds.lock. */
struct paracuda_user {
	struct list_head node;		/* in dev->bounds.users */
	kuid_t uid;
	unsigned int refs;		/* channels that live */
	unsigned int arenas;
	unsigned long pinned;		/* pages; read without the lock, too */
	unsigned long passing;
	unsigned long host_pages;
};

/* users.c */
unsigned long paracuda_share(unsigned long all);
struct paracuda_user *paracuda_user_get(struct paracuda_device *dev);
void paracuda_user_put(struct paracuda_device *dev, struct paracuda_user *user);
int paracuda_mm_charge(struct mm_struct *mm, unsigned long pages);
void paracuda_mm_uncharge(struct mm_struct *mm, unsigned long pages);

/* bounds.c */
bool paracuda_pin_room(struct paracuda_channel *ch, unsigned long pages);
int paracuda_pin_charge(struct paracuda_channel *ch, unsigned long pages, bool oneshot);
void paracuda_pin_uncharge(struct paracuda_channel *ch, unsigned long pages, bool oneshot);
bool paracuda_host_charge(struct paracuda_channel *ch, unsigned long pages);
void paracuda_host_uncharge(struct paracuda_device *dev, struct paracuda_user *user,
			     unsigned long pages);
int paracuda_arena_charge(struct paracuda_device *dev, struct paracuda_user *user,
			  bool privileged);
void paracuda_arena_uncharge(struct paracuda_device *dev, struct paracuda_user *user);

static inline bool paracuda_oneshot(u32 flags)
{
	return flags & PARACUDA_MAP_FLAG_ONESHOT;
}

#endif
