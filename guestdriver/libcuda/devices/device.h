/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, as the worker described them at the start, after CUDA_VISIBLE_DEVICES. */
#ifndef PARACUDA_DEVICE_H
#define PARACUDA_DEVICE_H

#include <stdbool.h>

#include "abi/cuda_abi.h"
#include "paracuda_wire.h"

#define DEVICES_MAX 64

/* The CUDA version whose functions this library knows: it reports no newer one. */
#ifndef DRIVER_VERSION
#define DRIVER_VERSION CUDA_DRIVER_VERSION
#endif

struct devices {
	int driver_version;
	unsigned count;
	uint64_t window_base, window_bytes;
	unsigned host[DEVICES_MAX]; /* the worker's ordinal of each */
	const struct paracuda_inventory_device *inventory[DEVICES_MAX];
};

extern struct devices devices;

/* Takes the worker's description. 0, or the error of cuInit. */
CUresult devices_load(const void *inventory, size_t bytes);

/*
 * Applies a CUDA_VISIBLE_DEVICES list (NULL for none) to n devices: fills `visible` and returns
 * their number. An entry that names no device hides all after it; one that names a device again is
 * an error, as with driver 580.
 */
CUresult devices_visible(const char *list, const struct paracuda_inventory_device *const *all,
			 unsigned n, unsigned *visible, unsigned *number);

/*
 * The device that such a list names first. It is needed before devices are described, so a UUID
 * counts as 0.
 */
unsigned devices_first(const char *list);

/* Whether CUDA knows that CUDA_DEVICE_ORDER. It has no effect: the order is the host's. */
CUresult device_order(const char *order);

static inline bool device_valid(CUdevice dev)
{
	return dev >= 0 && (unsigned)dev < devices.count;
}

/* The worker's ordinal. */
static inline uint64_t device_host(CUdevice dev)
{
	return devices.host[dev];
}

/* An attribute as cuDeviceGetAttribute gives it. */
CUresult device_attribute(CUdevice dev, int attribute, int *value);

/* The same; 0 if there is no such attribute. */
int device_number(CUdevice dev, int attribute);

/* Its PCI Express link on the host (paracuda_table.h). */
struct paracuda_link;
CUresult device_link(struct paracuda_link *link, CUdevice dev);

#endif
