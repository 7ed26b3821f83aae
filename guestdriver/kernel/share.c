// SPDX-License-Identifier: GPL-2.0
/*
 * Handles: what a channel's worker shares with others becomes a descriptor, which processes may
 * pass on. The device's number of it stays in here, so only who has a descriptor has the object.
 * When the last one is closed, the device forgets it.
 *
 * While the device is away, and from before that on, it isn't asked (paracuda_share_begin()): what
 * descriptors stand for is saved meanwhile. Handles stay, with the numbers that they have.
 */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "paracuda.h"

/*
 * A request for an object. It lives until it is answered; EXPORT's lives until its descriptor is
 * released.
 */
struct paracuda_handle {
	struct list_head node;		/* in dev->handles.dropped */
	struct paracuda_device *dev;
	bool begun;			/* paracuda_share_begin(): until ask is answered */
	struct paracuda_request ask;	/* EXPORT or IMPORT */
	struct paracuda_request release;
};

static struct paracuda_handle *paracuda_handle_new(struct paracuda_channel *ch, u32 type,
						   u32 number)
{
	struct paracuda_handle *h;

	h = kzalloc(sizeof(*h), GFP_KERNEL_ACCOUNT);
	if (!h)
		return NULL;
	kref_get(&ch->dev->ref);
	atomic_inc(&ch->dev->handles.count);
	h->dev = ch->dev;
	h->ask.out.type = type;
	h->ask.out.channel = ch->queue->index;
	h->ask.out.number = number;
	return h;
}

static void paracuda_handle_free(struct paracuda_handle *h)
{
	struct paracuda_device *dev = h->dev;

	atomic_dec(&dev->handles.count);
	kfree(h);
	paracuda_device_put(dev);
}

/*
 * Waits for the answer to what a handle asked. When it returns, the device has nothing of h->ask
 * any more. Returns whether the device has a handle for it.
 */
static bool paracuda_handle_granted(struct paracuda_handle *h)
{
	struct paracuda_request *ask = &h->ask;
	bool answered = ask->posted && paracuda_control_await(h->dev, ask);

	if (h->begun)
		paracuda_share_end(h->dev);
	h->begun = false;
	return answered && ask->status == PARACUDA_STATUS_OK &&
	       ask->out.type == PARACUDA_CONTROL_EXPORT;
}

/*
 * Gives back what a handle got. When it returns, the device has nothing of h any more. false: that
 * can't be done before the device is back.
 */
static bool paracuda_handle_release(struct paracuda_handle *h)
{
	struct paracuda_request *req = &h->release;

	if (!paracuda_handle_granted(h))
		return true;
	if (!paracuda_share_begin(h->dev))
		return false;
	req->out.type = PARACUDA_CONTROL_RELEASE;
	req->out.number = h->ask.number;
	paracuda_control_order(h->dev, req);
	paracuda_share_end(h->dev);
	return true;
}

/* The first handle that nobody has any more: any, or one whose request may have no answer yet. */
static struct paracuda_handle *paracuda_handle_dropped(struct paracuda_device *dev, bool begun)
{
	struct paracuda_handle *h, *found = NULL;

	spin_lock(&dev->handles.lock);
	list_for_each_entry(h, &dev->handles.dropped, node) {
		if (h->begun || !begun) {
			found = h;
			break;
		}
	}
	spin_unlock(&dev->handles.lock);
	return found;
}

/*
 * Ends the handles that nobody has any more. It is work, so that who closes a descriptor doesn't
 * wait for the host. It doesn't wait for a device that is away, either, but begins again then; what
 * has been asked is answered before that goes.
 */
void paracuda_drop_work(struct work_struct *work)
{
	struct paracuda_device *dev = container_of(work, struct paracuda_device, handles.drop);
	struct paracuda_handle *h;

	while ((h = paracuda_handle_dropped(dev, true)))
		paracuda_handle_granted(h);
	while ((h = paracuda_handle_dropped(dev, false)) && paracuda_handle_release(h)) {
		spin_lock(&dev->handles.lock);
		list_del(&h->node);
		spin_unlock(&dev->handles.lock);
		atomic_dec(&dev->handles.dropping);
		paracuda_handle_free(h);
		wake_up_all(&dev->wait);
	}
	paracuda_device_put(dev);	/* of paracuda_drop_again() */
}

static void paracuda_handle_drop(struct paracuda_handle *h)
{
	struct paracuda_device *dev = h->dev;

	atomic_inc(&dev->handles.dropping);
	spin_lock(&dev->handles.lock);
	list_add_tail(&h->node, &dev->handles.dropped);
	spin_unlock(&dev->handles.lock);
	paracuda_drop_again(dev);
}

static int paracuda_handle_errno(u32 status)
{
	switch (status) {
	case PARACUDA_STATUS_NO_OBJECT:
		return -ENOENT;
	case PARACUDA_STATUS_LIMIT:
		return -ENOSPC;
	default:
		return paracuda_status_errno(status);
	}
}

/* Asks the device, and waits for the answer. The caller drops or frees what it gets. */
static struct paracuda_handle *paracuda_handle_ask(struct paracuda_channel *ch, u32 type,
						   u32 number)
{
	struct paracuda_device *dev = ch->dev;
	struct paracuda_handle *h;
	int err;

	h = paracuda_handle_new(ch, type, number);
	if (!h)
		return ERR_PTR(-ENOMEM);
	while (!paracuda_share_begin(dev)) {
		err = paracuda_await_settled(dev);
		if (err) {
			paracuda_handle_free(h);
			return ERR_PTR(err);
		}
	}
	h->begun = true;
	err = paracuda_control_ask(dev, &h->ask, &dev->stopped, PARACUDA_SHARE_TIMEOUT);
	if (!err) {
		paracuda_handle_granted(h);
		err = paracuda_handle_errno(h->ask.status);
	}
	if (!err)
		return h;
	paracuda_handle_drop(h);	/* the answer may be on its way */
	return ERR_PTR(err);
}

/*
 * The same. If the device has too many handles, it is asked once more when it knows of those that
 * were closed.
 */
static struct paracuda_handle *paracuda_handle_get(struct paracuda_channel *ch, u32 type,
						   u32 number)
{
	struct paracuda_device *dev = ch->dev;
	struct paracuda_handle *h;
	long left;

	h = paracuda_handle_ask(ch, type, number);
	if (h != ERR_PTR(-ENOSPC))
		return h;
	left = wait_event_killable_timeout(dev->wait, !atomic_read(&dev->handles.dropping) ||
					   READ_ONCE(dev->stopped), PARACUDA_SHARE_TIMEOUT);
	if (left <= 0)
		return ERR_PTR(left ? -EINTR : -ENOSPC);
	return paracuda_handle_ask(ch, type, number);
}

static int paracuda_handle_file_release(struct inode *inode, struct file *file)
{
	paracuda_handle_drop(file->private_data);
	return 0;
}

static const struct file_operations paracuda_handle_fops = {
	.owner = THIS_MODULE,
	.release = paracuda_handle_file_release,
	.llseek = noop_llseek,
};

int paracuda_export(struct paracuda_channel *ch, struct paracuda_ioctl_export __user *user)
{
	struct paracuda_ioctl_export arg;
	struct paracuda_handle *h;
	struct file *file;
	int err;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	arg.fd = get_unused_fd_flags(O_CLOEXEC);
	if (arg.fd < 0)
		return arg.fd;
	h = paracuda_handle_get(ch, PARACUDA_CONTROL_EXPORT, arg.object);
	if (IS_ERR(h)) {
		err = PTR_ERR(h);
		goto put;
	}
	file = anon_inode_getfile("[paracuda]", &paracuda_handle_fops, h, O_RDWR);
	if (IS_ERR(file)) {
		paracuda_handle_drop(h);
		err = PTR_ERR(file);
		goto put;
	}
	if (copy_to_user(user, &arg, sizeof(arg))) {
		fput(file);	/* drops h */
		err = -EFAULT;
		goto put;
	}
	fd_install(arg.fd, file);
	return 0;
put:
	put_unused_fd(arg.fd);
	return err;
}

/* Asks for the object of a descriptor, which the caller holds meanwhile. */
static int paracuda_import_file(struct paracuda_channel *ch, struct file *file, u32 *object)
{
	struct paracuda_handle *exported, *h;

	if (file->f_op != &paracuda_handle_fops)
		return -EINVAL;
	exported = file->private_data;
	if (exported->dev != ch->dev)
		return -EINVAL;
	h = paracuda_handle_get(ch, PARACUDA_CONTROL_IMPORT, exported->ask.number);
	if (IS_ERR(h))
		return PTR_ERR(h);
	*object = h->ask.number;
	paracuda_handle_free(h);
	return 0;
}

int paracuda_import(struct paracuda_channel *ch, struct paracuda_ioctl_import __user *user)
{
	struct paracuda_ioctl_import arg;
	struct file *file;
	int err;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	file = fget(arg.fd);
	if (!file)
		return -EBADF;
	err = paracuda_import_file(ch, file, &arg.object);
	fput(file);
	if (!err && copy_to_user(user, &arg, sizeof(arg)))
		err = -EFAULT;
	return err;
}
