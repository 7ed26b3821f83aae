/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Written when the channel opens. */
static struct {
	int fd;
} state = { -1 };

static int open_node(const char *path, struct paracuda_ioctl_open *open_args, void **arena)
{
	int error;

	state.fd = open(path, O_RDWR | O_CLOEXEC);
	if (state.fd < 0)
		return errno;
	if (ioctl(state.fd, PARACUDA_IOC_OPEN, open_args))
		goto fail;
	*arena =
		mmap(NULL, open_args->arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, state.fd, 0);
	if (*arena == MAP_FAILED)
		goto fail;
	/* A forked child has no use for it, and must not disturb it. */
	madvise(*arena, open_args->arena_bytes, MADV_DONTFORK);
	return 0;
fail:
	error = errno;
	close(state.fd);
	state.fd = -1;
	return error;
}

static int device_path(char *path, size_t room)
{
	char name[64];
	struct stat s;
	ssize_t n;

	if (fstat(state.fd, &s))
		return errno;
	snprintf(name, sizeof(name), "/sys/dev/char/%u:%u", major(s.st_rdev), minor(s.st_rdev));
	n = readlink(name, path, room - 1);
	if (n < 0)
		return errno;
	path[n] = 0;
	return 0;
}

/*
 * Opens the first device that works. If none does, the error is that of a device that is gone, if
 * there is one, rather than that there is none.
 */
static int device_open(struct paracuda_ioctl_open *open_args, void **arena)
{
	char path[sizeof(PARACUDA_DEVICE) + 12] = PARACUDA_DEVICE;
	int error, gone = ENOENT;

	for (unsigned i = 0; i < PARACUDA_DEVICES_MAX; i++) {
		if (i)
			snprintf(path, sizeof(path), PARACUDA_DEVICE "%u", i);
		error = open_node(path, open_args, arena);
		if (error == ENODEV)
			gone = error;
		else if (error != ENOENT)
			return error;
	}
	return gone;
}

static int device_kick(void)
{
	return ioctl(state.fd, PARACUDA_IOC_KICK) ? errno : 0;
}

static int device_wait(struct paracuda_ioctl_wait *wait)
{
	return ioctl(state.fd, PARACUDA_IOC_WAIT, wait) ? errno : 0;
}

static int device_poll(struct paracuda_ioctl_wait *wait)
{
	return ioctl(state.fd, PARACUDA_IOC_POLL, wait) ? errno : 0;
}

static int device_map(struct paracuda_ioctl_map *map)
{
	return ioctl(state.fd, PARACUDA_IOC_MAP, map) ? errno : 0;
}

static int device_host_memory(void *at, uint64_t bytes)
{
	void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, state.fd,
		       PARACUDA_HOST_MEMORY);

	return p == MAP_FAILED ? errno : 0;
}

static int device_export(struct paracuda_ioctl_export *args)
{
	return ioctl(state.fd, PARACUDA_IOC_EXPORT, args) ? errno : 0;
}

static int device_import(struct paracuda_ioctl_import *args)
{
	return ioctl(state.fd, PARACUDA_IOC_IMPORT, args) ? errno : 0;
}

const struct transport device_transport = {
	.open = device_open,
	.path = device_path,
	.kick = device_kick,
	.wait = device_wait,
	.poll = device_poll,
	.map = device_map,
	.host_memory = device_host_memory,
	.export_object = device_export,
	.import_object = device_import,
};

const struct transport *transport = &device_transport;
