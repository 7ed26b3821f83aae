// SPDX-License-Identifier: GPL-2.0
/* The device node: what a process may ask. */

#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "paracuda.h"

static int paracuda_open(struct inode *inode, struct file *file)
{
	struct paracuda_device *dev = container_of(file->private_data, struct paracuda_device,
						   misc);
	struct paracuda_file *pf;

	pf = kzalloc(sizeof(*pf), GFP_KERNEL_ACCOUNT);
	if (!pf)
		return -ENOMEM;
	mutex_init(&pf->lock);
	kref_get(&dev->ref);	/* misc_open() keeps the device registered meanwhile */
	pf->dev = dev;
	file->private_data = pf;
	return 0;
}

/* The file's channel, or NULL before OPEN. */
static struct paracuda_channel *paracuda_file_channel(struct paracuda_file *pf)
{
	/* Pairs with paracuda_ioctl_open(). */
	return smp_load_acquire(&pf->channel);
}

/* A descriptor is closed, by the opener (or its exit) or by a child that inherited it. */
static int paracuda_flush(struct file *file, fl_owner_t id)
{
	struct paracuda_file *pf = file->private_data;
	struct paracuda_channel *ch = paracuda_file_channel(pf);

	if (ch && ch->files == id)
		paracuda_channel_close(ch);
	return 0;
}

static int paracuda_release(struct inode *inode, struct file *file)
{
	struct paracuda_file *pf = file->private_data;

	if (pf->channel) {
		paracuda_channel_close(pf->channel);
		paracuda_channel_put(pf->channel);
	}
	paracuda_device_put(pf->dev);
	kfree(pf);
	return 0;
}

static long paracuda_ioctl_open(struct paracuda_file *pf, struct paracuda_ioctl_open __user *user)
{
	struct paracuda_ioctl_open arg;
	struct paracuda_settings settings;
	struct paracuda_channel *ch;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	if (arg.version != PARACUDA_VERSION)
		return -EPROTO;
	if (pf->channel)
		return -EEXIST;

	paracuda_settings_get(pf->dev, &settings);
	ch = paracuda_channel_open(pf->dev, settings.arena_bytes, arg.channel);
	if (IS_ERR(ch))
		return PTR_ERR(ch);

	arg.channel = ch->queue->index;
	arg.arena_bytes = settings.arena_bytes;
	if (copy_to_user(user, &arg, sizeof(arg))) {
		paracuda_channel_close(ch);
		paracuda_channel_put(ch);
		return -EFAULT;
	}
	/* Pairs with paracuda_file_channel(). */
	smp_store_release(&pf->channel, ch);
	return 0;
}

/* The file's channel, entered, for the process that opened it. */
static struct paracuda_channel *paracuda_file_enter(struct file *file)
{
	struct paracuda_file *pf = file->private_data;
	struct paracuda_channel *ch = paracuda_file_channel(pf);

	if (!ch)
		return ERR_PTR(-ENOTCONN);
	if (ch->mm != current->mm)
		return ERR_PTR(-EPERM);
	if (!paracuda_channel_enter(ch))
		return ERR_PTR(paracuda_channel_error(ch));
	return ch;
}

static long paracuda_ioctl_channel(struct paracuda_channel *ch, unsigned int cmd, void __user *user)
{
	switch (cmd) {
	case PARACUDA_IOC_KICK:
		return paracuda_channel_kick(ch);
	case PARACUDA_IOC_WAIT:
		return paracuda_wait(ch, user);
	case PARACUDA_IOC_POLL:
		return paracuda_spin(ch, user);
	case PARACUDA_IOC_MAP:
		return paracuda_map(ch, user);
	case PARACUDA_IOC_EXPORT:
		return paracuda_export(ch, user);
	case PARACUDA_IOC_IMPORT:
		return paracuda_import(ch, user);
	default:
		return -ENOTTY;
	}
}

/*
 * Calls that need the device wait while it is away, and are made again if it went away meanwhile.
 * The others only look at memory that the worker writes, or is going to read.
 */
static long paracuda_ioctl_lasting(struct paracuda_channel *ch, unsigned int cmd,
				   void __user *user)
{
	struct paracuda_device *dev = ch->dev;
	unsigned int era;
	long err;

	if (cmd != PARACUDA_IOC_MAP && cmd != PARACUDA_IOC_EXPORT && cmd != PARACUDA_IOC_IMPORT)
		return paracuda_ioctl_channel(ch, cmd, user);
	do {
		era = READ_ONCE(dev->era);
		err = paracuda_await_present(dev);
		if (err)
			return err;
		err = paracuda_ioctl_channel(ch, cmd, user);
	} while (paracuda_missed(dev, era, err));
	return err;
}

static long paracuda_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct paracuda_file *pf = file->private_data;
	void __user *user = (void __user *)arg;
	struct paracuda_channel *ch;
	long err;

	if (cmd == PARACUDA_IOC_OPEN) {
		if (mutex_lock_killable(&pf->lock))
			return -EINTR;
		err = paracuda_ioctl_open(pf, user);
		mutex_unlock(&pf->lock);
		return err;
	}

	ch = paracuda_file_enter(file);
	if (IS_ERR(ch))
		return PTR_ERR(ch);
	err = paracuda_ioctl_lasting(ch, cmd, user);
	paracuda_channel_leave(ch);
	return err;
}

static int paracuda_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct paracuda_channel *ch = paracuda_file_enter(file);
	int err;

	if (IS_ERR(ch))
		return PTR_ERR(ch);
	if (vma->vm_pgoff == PARACUDA_HOST_MEMORY >> PAGE_SHIFT)
		err = paracuda_host_mmap(ch, vma);
	else
		err = paracuda_arena_mmap(ch, vma);
	paracuda_channel_leave(ch);
	return err;
}

const struct file_operations paracuda_fops = {
	.owner = THIS_MODULE,
	.open = paracuda_open,
	.flush = paracuda_flush,
	.release = paracuda_release,
	.unlocked_ioctl = paracuda_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = paracuda_mmap,
	.llseek = noop_llseek,
};
