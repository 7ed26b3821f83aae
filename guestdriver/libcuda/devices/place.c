/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "devices/place.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi/cuda_abi.h"
#include "devices/device.h"
#include "transport/transport.h"

#define SLOTS 32 /* devices on a bus */

/* The device is the last component that has an address: those before it are bridges. */
bool place_parse(const char *path, struct place *place)
{
	bool found = false;

	for (const char *s = path; s; s = strchr(s, '/')) {
		struct place p;
		int end = 0;

		s += *s == '/';
		if (sscanf(s, "%8x:%2x:%2x.%*1x%n", &p.domain, &p.bus, &p.device, &end) == 3 &&
		    s[end] == '/') {
			*place = p;
			found = true;
		}
	}
	return found;
}

static bool taken(const struct place *p)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.0", p->domain, p->bus,
		 p->device);
	return access(path, F_OK) == 0;
}

static void set(struct paracuda_inventory_device *d, int attribute, unsigned value)
{
	d->attribute[attribute] = (int)value;
	d->attribute_result[attribute] = CUDA_SUCCESS;
}

static void give(struct paracuda_inventory_device *d, const struct place *p)
{
	set(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, p->domain);
	set(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, p->bus);
	set(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, p->device);
}

/* A place as descriptions of NVLinks number it. */
static uint64_t number(const struct paracuda_inventory_device *d)
{
	const __s32 *a = d->attribute;

	return (uint64_t)(uint32_t)a[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] << 32 |
	       (uint64_t)(uint8_t)a[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] << 8 |
	       (uint8_t)a[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID];
}

#define REMOTE_GPU 0

/*
 * Makes the links of a device, which lead to places of the host's, lead to the new places of the
 * devices there.
 */
static void lead(struct paracuda_inventory_device *d,
		 const struct paracuda_inventory_device *others, const uint64_t *before, unsigned n)
{
	for (unsigned link = 0; link < PARACUDA_NVLINKS; link++) {
		if (d->nvlink_remote[link] != REMOTE_GPU)
			continue;
		for (unsigned i = 0; i < n; i++)
			if (d->nvlink_place[link] == before[i]) {
				d->nvlink_place[link] = number(&others[i]);
				break;
			}
	}
}

void place_devices(struct paracuda_inventory_device *d, unsigned n)
{
	uint64_t before[DEVICES_MAX];
	char path[PATH_MAX];
	struct place p;

	if (n == 0 || n > DEVICES_MAX || !transport->path || transport->path(path, sizeof(path)) ||
	    !place_parse(path, &p))
		return;
	for (unsigned i = 0; i < n; i++)
		before[i] = number(&d[i]);
	give(&d[0], &p);
	for (unsigned i = 1; i < n; i++) {
		unsigned tries = 0;

		do
			p.device = (p.device + 1) % SLOTS;
		while (taken(&p) && tries++ < SLOTS);
		give(&d[i], &p);
	}
	for (unsigned i = 0; i < n; i++)
		lead(&d[i], d, before, n);
}
