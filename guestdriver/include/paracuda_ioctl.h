/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR Apache-2.0 */
/*
 * What the guest library asks of /dev/paracuda.
 *
 * One open file is one channel once OPEN has succeeded: a worker on the host, a virtqueue and an
 * arena (paracuda_wire.h), which the process maps with mmap(fd, 0, arena_bytes). The channel ends
 * when the process that opened it exits or closes the file; a forked child can't use it.
 */
#ifndef PARACUDA_IOCTL_H
#define PARACUDA_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PARACUDA_DEVICE "/dev/paracuda"

/*
 * Further devices are PARACUDA_DEVICE followed by 1, 2, ... A working one has the first name.
 */
#define PARACUDA_DEVICES_MAX 8

/* version: PARACUDA_VERSION of the library, checked by the driver (EPROTO if they differ).
 * Fails with EBUSY (no free channel, or too many arenas of ended ones that are still mapped),
 * EDQUOT (the user has their share of them), EPROTO, ENODEV (no device, or gone), EHOSTDOWN
 * (no worker), ENXIO (no GPU).
 */
struct paracuda_ioctl_open {
	__u32 version;
	/* in: the GPU that the program uses first, by CUDA_VISIBLE_DEVICES, or 0;
	 * out: the channel
	 */
	__u32 channel;
	__u64 arena_bytes;	/* out */
};

/*
 * Sleeps until the arena's 32-bit word at `offset` no longer equals `value`, the worker is gone
 * (EIO), a signal comes (EINTR) or timeout_ns have passed (ETIMEDOUT; 0: no limit). If the header's
 * `held` was 1, it ends when that is 0 (EAGAIN).
 */
struct paracuda_ioctl_wait {
	__u32 offset;
	__u32 value;
	__u64 timeout_ns;
};

/*
 * POLL waits likewise, but keeps the processor until something else must run on it (EAGAIN), and
 * for at most 1 s or, if the driver decides so, less (ETIMEDOUT). It is for waits that are shorter
 * than a wake-up takes: a thread that polls isn't counted among the arena's sleepers and gets no
 * EVENT.
 */

/* Pins [address, address + bytes) of the caller and hands the pages to the worker as a MAP chain.
 * flags: PARACUDA_MAP_FLAG_*. EFAULT, EINVAL (too many runs: split it), EAGAIN (queue full:
 * complete some), ENOSPC (the worker keeps as many maps as it can: unmap some), EBUSY (as much is
 * pinned as may be, some of it for copies under way: try again), ENOMEM (the same, but none of it
 * for copies).
 */
struct paracuda_ioctl_map {
	__u64 address;
	__u64 bytes;
	__u32 flags;
	__u32 id;		/* out */
};

/*
 * Makes a descriptor (close-on-exec) of an object that the channel's worker has offered under a
 * number. The descriptor can be passed to other processes. It keeps the object alive by itself,
 * also after the channel has ended. ENOENT (no such object), ENOSPC (the host has too many),
 * EMFILE, ENFILE.
 */
struct paracuda_ioctl_export {
	__u32 object;
	__s32 fd;		/* out */
};

/*
 * Hands the object of such a descriptor to the channel's worker, which knows it by a number that
 * can be used once. EBADF, EINVAL (not such a descriptor, or of another device), ENOENT (the device
 * was reset since).
 */
struct paracuda_ioctl_import {
	__s32 fd;
	__u32 object;		/* out */
};

/*
 * mmap(fd, PARACUDA_HOST_MEMORY, bytes), shared: new zeroed memory of the process in long runs of
 * neighbouring pages, which MAP then passes cheaply. It isn't inherited by children.
 */
#define PARACUDA_HOST_MEMORY 0x10000000000

#define PARACUDA_IOC_OPEN _IOWR('P', 0, struct paracuda_ioctl_open)
#define PARACUDA_IOC_KICK _IO('P', 1)
#define PARACUDA_IOC_WAIT _IOW('P', 2, struct paracuda_ioctl_wait)
#define PARACUDA_IOC_MAP  _IOWR('P', 3, struct paracuda_ioctl_map)
#define PARACUDA_IOC_EXPORT _IOWR('P', 4, struct paracuda_ioctl_export)
#define PARACUDA_IOC_IMPORT _IOWR('P', 5, struct paracuda_ioctl_import)
#define PARACUDA_IOC_POLL _IOW('P', 6, struct paracuda_ioctl_wait)

#endif
