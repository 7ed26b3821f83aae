/* SPDX-License-Identifier: Apache-2.0 */
/* Where devices are on the VM's bus, which is not where they are on the host's. */
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
 * place_devices gives n devices places on the VM's bus. The first gets that of the virtio device
 * which serves them all, so that programs find it in /sys/bus/pci; the others get free ones after
 * it. NVLinks are changed to match. Without PCI, devices keep the host's places.
 */
void place_devices(struct paracuda_inventory_device *d, unsigned n);

#endif
