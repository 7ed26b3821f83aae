/* SPDX-License-Identifier: Apache-2.0 */
/* What the channel needs of the kernel driver. Tests put a worker of their own behind it. */
#ifndef PARACUDA_TRANSPORT_H
#define PARACUDA_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "paracuda_ioctl.h"

/* Each returns 0, or an errno. */
struct transport {
	/* Opens a channel and maps its arena. */
	int (*open)(struct paracuda_ioctl_open *open, void **arena);
	/* The path of the open device in sysfs, from the root of its tree; may be NULL. */
	int (*path)(char *path, size_t room);
	int (*kick)(void);
	int (*wait)(struct paracuda_ioctl_wait *wait);
	/* Polls, as long as nobody else wants the processor. */
	int (*poll)(struct paracuda_ioctl_wait *wait);
	int (*map)(struct paracuda_ioctl_map *map);
	/* Maps new memory, in long runs of neighbouring pages, at an address that must be free. */
	int (*host_memory)(void *at, uint64_t bytes);
	/* Descriptors of what processes share. */
	int (*export_object)(struct paracuda_ioctl_export *args);
	int (*import_object)(struct paracuda_ioctl_import *args);
};

extern const struct transport device_transport; /* /dev/paracuda */
extern const struct transport *transport; /* the one in use */

#endif
