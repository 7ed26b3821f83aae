/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PARACUDA_H
#define PARACUDA_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/uidgid.h>
#include <linux/version.h>
#include <linux/virtio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "paracuda_ioctl.h"
#include "paracuda_wire.h"
#include "limits.h"
#include "expose.h"
#include "bounds.h"
#include "control.h"
#include "queue.h"

#ifdef __BIG_ENDIAN
#error "the wire format is little-endian, and is used in place"
#endif

/* What to do about a host that speaks another version of the protocol. */
#define PARACUDA_OTHER_PACKAGE	"install the guest package of the host's version\n"

/* The handles of a device (share.c): struct paracuda_handle. */
struct paracuda_handles {
	atomic_t count;
	spinlock_t lock;
	struct list_head dropped;	/* under lock: those that nobody holds any more */
	struct work_struct drop;
	atomic_t dropping;		/* those of which the device may not have been told yet */
	atomic_t asking;		/* present.c: requests about handles without an answer */
};

struct paracuda_arena {
	struct page **pages;
	unsigned long count;
};

struct paracuda_device {
	struct kref ref;
	struct virtio_device *vdev;	/* not to be touched once stopped */
	struct miscdevice misc;		/* node.c, as what follows */
	struct list_head node;
	char name[16];
	int number, want;		/* at the name's end; -1: no node */

	struct srcu_struct srcu;	/* see struct paracuda_queue */
	struct mutex lock;		/* claiming and freeing of channels */
	bool gone;			/* under lock: no more channels */
	unsigned int freed;		/* under lock: counts freed channels */
	atomic_t busy;			/* channels not freed yet */
	wait_queue_head_t wait;		/* for answers, freed channels and the stop */

	struct mutex stop_lock;		/* starting and stopping */
	bool stopped;			/* the host touches nothing any more */
	unsigned int era;		/* under stop_lock: another after each start and stop */
	spinlock_t fail_lock;		/* failed is written; taken in interrupts */
	bool failed;			/* fail_work was queued, or must not be */
	struct work_struct fail_work;

	struct mutex place_lock;	/* place.c, as what follows: moving interrupts */
	bool shares_interrupt;		/* all queues do */
	struct paracuda_place interrupt;	/* the one that they share */

	spinlock_t control_lock;	/* the control queue; taken in interrupts */
	struct virtqueue *control;	/* as queue->vq */
	unsigned int asked;		/* under control_lock: requests without an answer */
	struct delayed_work control_poll;
	u64 *exposed;			/* a page: where those of each channel are */
	struct paracuda_request hello;
	struct paracuda_request watch;	/* SETTINGS: nobody waits for the answer */
	struct paracuda_beat beat;
	bool leaving;			/* nothing is asked of the device any more */
	struct paracuda_request farewell;	/* leave.c */

	struct paracuda_absence absence;

	spinlock_t settings_lock;	/* settings; not taken in interrupts */
	struct paracuda_settings settings;	/* under settings_lock */
	struct work_struct settings_work;
	struct work_struct status_work;

	struct paracuda_handles handles;
	struct notifier_block reboot;

	struct paracuda_bounds bounds;
	unsigned int channels;
	struct virtqueue **vqs;		/* all of them, under stop_lock */
	struct paracuda_queue queues[];
};

/*
 * A channel, from OPEN to the end of CLOSE, and longer while its file is open.
 *
 * ref: one of the open file, one while queue->channel points here. users: one until the channel is
 * to be closed, one of each system call at work in it. When the last one goes, nothing is made
 * available any more, and finish closes the channel on the host. Only after that the pinned pages
 * are freed, and with the last reference the arena.
 */
struct paracuda_channel {
	struct kref ref;
	refcount_t users;
	struct paracuda_device *dev;
	struct paracuda_queue *queue;
	struct paracuda_user *user;	/* of the opener */
	bool privileged;		/* the opener was: no share bounds it */
	struct mm_struct *mm;		/* of the opener, to compare */
	void *files;			/* of the opener, to compare */
	unsigned long closing;		/* bit 0 */
	struct paracuda_request open;
	struct paracuda_request close;
	struct work_struct finish;
	struct delayed_work poll;

	struct paracuda_arena arena;
	struct paracuda_arena_header *header;
	struct paracuda_exposure exposure;
	struct xarray maps;		/* ids in use: maps that stay, by RCU, and 0 for others */
	u32 next_id;
	wait_queue_head_t wait;		/* struct paracuda_waiter */

	/* Under queue->lock. */
	bool dead;			/* read without it too */
	bool event_posted;
	bool over;			/* ARENA is back: the worker has nothing left */
	unsigned int inflight;		/* chains */
	unsigned int passing;		/* MAP chains among them */
	unsigned long flying;		/* pages of ONESHOT maps among these */
	unsigned int staying;		/* maps of other kinds, in flight or kept */
	unsigned int sleepers;
	struct list_head kept;		/* maps whose chains are back, but not their pages */
	struct list_head returned;	/* maps to be released */
	struct list_head parked;	/* maps for the device when it is back */
	struct paracuda_token arena_chain;
	struct paracuda_token event;
};

/* An open file. */
struct paracuda_file {
	struct paracuda_device *dev;
	struct mutex lock;		/* serializes OPEN */
	struct paracuda_channel *channel;	/* set once, with release */
};

/* The files from the bottom up, as Kbuild lists them: each calls only those before it. */

/* device.c */
extern struct workqueue_struct *paracuda_wq;
void paracuda_device_put(struct paracuda_device *dev);
void paracuda_fail(struct paracuda_device *dev);

/* pool.c: see pool.h */

/* expose.c: see expose.h */

/* token.c: see queue.h */

/* users.c, bounds.c: see bounds.h */

/* control.c, present.c, settings.c, beat.c, leave.c: see control.h */

/* share.c */
int paracuda_export(struct paracuda_channel *ch, struct paracuda_ioctl_export __user *user);
int paracuda_import(struct paracuda_channel *ch, struct paracuda_ioctl_import __user *user);
void paracuda_drop_work(struct work_struct *work);

/* arena.c */
int paracuda_arena_alloc(struct paracuda_arena *arena, unsigned long bytes);
void paracuda_arena_free(struct paracuda_arena *arena);
int paracuda_arena_chain(struct paracuda_channel *ch);
struct page *paracuda_alloc_contiguous(unsigned long want, unsigned int *order, gfp_t more);
void paracuda_vma_flags(struct vm_area_struct *vma);

/* vouch.c */
void paracuda_vouch(struct paracuda_token *map);
bool paracuda_unvouch(struct paracuda_channel *ch, struct paracuda_token *map);

/* returned.c, queue.c, reap.c, post.c, park.c, place.c: see queue.h */

/* channel.c */
struct paracuda_channel *paracuda_channel_open(struct paracuda_device *dev,
					       unsigned long arena_bytes, u32 gpu);
void paracuda_channel_close(struct paracuda_channel *ch);
void paracuda_channel_put(struct paracuda_channel *ch);
bool paracuda_channel_enter(struct paracuda_channel *ch);
void paracuda_channel_leave(struct paracuda_channel *ch);

/* arena_map.c */
extern const struct vm_operations_struct paracuda_arena_vm_ops;
int paracuda_arena_mmap(struct paracuda_channel *ch, struct vm_area_struct *vma);

/* host_alloc.c: only in User Mode Linux */
extern const struct vm_operations_struct paracuda_host_alloc_vm_ops;
int paracuda_host_alloc_map(struct paracuda_channel *ch, struct vm_area_struct *vma);

/* host_memory.c */
int paracuda_host_mmap(struct paracuda_channel *ch, struct vm_area_struct *vma);

/* hold.c */
#ifdef CONFIG_UML
bool paracuda_holds(unsigned long start, unsigned long count, u32 flags);
int paracuda_hold(unsigned long start, unsigned long count, unsigned int gup, struct page **pages);
#else
static inline bool paracuda_holds(unsigned long start, unsigned long count, u32 flags)
{
	return false;
}

static inline int paracuda_hold(unsigned long start, unsigned long count, unsigned int gup,
				struct page **pages)
{
	return -EFAULT;
}
#endif

/* map.c */
int paracuda_map(struct paracuda_channel *ch, struct paracuda_ioctl_map __user *user);

/* wait.c */
int paracuda_wait(struct paracuda_channel *ch, struct paracuda_ioctl_wait __user *user);
int paracuda_spin(struct paracuda_channel *ch, struct paracuda_ioctl_wait __user *user);

/* file.c */
extern const struct file_operations paracuda_fops;

/* node.c */
int paracuda_node_add(struct paracuda_device *dev);
void paracuda_node_part(struct paracuda_device *dev, struct device *parent);
void paracuda_node_remove(struct paracuda_device *dev);
void paracuda_nodes_settle(void);

/* vqs.c */
int paracuda_find_channels(struct paracuda_device *dev, unsigned int channels);
void paracuda_uml_features(struct virtio_device *vdev);
int paracuda_negotiate(struct virtio_device *vdev);

/* identify.c */
int paracuda_identify(struct virtio_device *vdev, unsigned int *channels);
int paracuda_take_over_begin(struct device_driver *driver);
void paracuda_take_over_end(void);

/* start.c */
void paracuda_set_channels(struct paracuda_device *dev, bool on);
void paracuda_stop(struct paracuda_device *dev);
int paracuda_start(struct paracuda_device *dev, unsigned int channels);
void paracuda_serves(struct paracuda_device *dev);
int paracuda_begin(struct paracuda_device *dev, unsigned int channels);
void paracuda_shut(struct paracuda_device *dev);
bool paracuda_idle(struct paracuda_device *dev);
void paracuda_end(struct paracuda_device *dev);

/* away.c */
bool paracuda_go_away(struct paracuda_device *dev);
void paracuda_away_over(struct work_struct *work);
void paracuda_away_end(void);
int paracuda_come_back(struct virtio_device *vdev, unsigned int channels);

#endif
