/* SPDX-License-Identifier: Apache-2.0 */
/* Where the VM has its devices on the bus, which is not where the host has them. */
#ifndef PARACUDA_PLACE_H
#define PARACUDA_PLACE_H

#include <stdbool.h>

#include "paracuda_wire.h"

struct place {
	unsigned domain, bus, device;
};

/*
 * place_parse finds the PCI device in the path of a device of sysfs. False where it isn't on PCI,
 * as in User Mode Linux.
 */
bool place_parse(const char *path, struct place *place);

/*
 * place_devices gives n devices places of the VM's: the first that of the virtio device that serves
 * them all, so that programs find it in /sys/bus/pci, the others free ones behind it. Their NVLinks
 * lead there. Without PCI they keep those of the host.
 */
void place_devices(struct paracuda_inventory_device *d, unsigned n);

#endif
