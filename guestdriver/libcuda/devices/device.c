/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "devices/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/zz_generated_prototypes.h"
#include "devices/peers.h"
#include "devices/place.h"
#include "devices/zz_generated_attributes.h"
#include "paracuda_table.h"

_Static_assert(sizeof(struct paracuda_inventory) == PARACUDA_SIZEOF_INVENTORY, "inventory");
_Static_assert(sizeof(struct paracuda_inventory_device) == PARACUDA_SIZEOF_INVENTORY_DEVICE,
	       "inventory device");

struct devices devices;

static struct paracuda_inventory_device *described;

static void withhold(struct paracuda_inventory_device *d)
{
	d->name[sizeof(d->name) - 1] = 0;
	/* The host has masked them too, if it is of this version. */
	for (unsigned i = 0; i < sizeof(masked) / sizeof(masked[0]); i++)
		if (!d->attribute_result[masked[i].attribute])
			d->attribute[masked[i].attribute] = masked[i].value;
}

CUresult devices_load(const void *inventory, size_t bytes)
{
	const struct paracuda_inventory_device *all[DEVICES_MAX];
	struct paracuda_inventory s;
	CUresult result;

	if (bytes < sizeof(s))
		return CUDA_ERROR_UNKNOWN;
	memcpy(&s, inventory, sizeof(s));
	if (s.devices > DEVICES_MAX || (bytes - sizeof(s)) / sizeof(*described) < s.devices) {
		log_user("the host's description of its devices can't be right: "
			 "%u devices in %zu bytes",
			 s.devices, bytes);
		return CUDA_ERROR_UNKNOWN;
	}
	free(described);
	described = calloc(s.devices + 1, sizeof(*described));
	if (!described)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(described, (const uint8_t *)inventory + sizeof(s), s.devices * sizeof(*described));
	for (unsigned i = 0; i < s.devices; i++) {
		withhold(&described[i]);
		all[i] = &described[i];
	}
	place_devices(described, s.devices);
	if (!devices.driver_version)
		devices.driver_version = (int)s.driver_version < DRIVER_VERSION ?
						 (int)s.driver_version :
						 DRIVER_VERSION;
	devices.window_base = s.window_base;
	devices.window_bytes = s.window_bytes;
	result = device_order(getenv("CUDA_DEVICE_ORDER"));
	if (!result)
		result = devices_visible(getenv("CUDA_VISIBLE_DEVICES"), all, s.devices,
					 devices.host, &devices.count);
	for (unsigned i = 0; i < devices.count; i++)
		devices.inventory[i] = all[devices.host[i]];
	return result;
}

CUresult device_attribute(CUdevice dev, int attribute, int *value)
{
	const struct paracuda_inventory_device *d = devices.inventory[dev];

	if (attribute <= 0 || attribute > CUDA_LAST_DEVICE_ATTRIBUTE ||
	    attribute >= PARACUDA_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (d->attribute_result[attribute])
		return d->attribute_result[attribute];
	*value = d->attribute[attribute];
	return CUDA_SUCCESS;
}

int device_number(CUdevice dev, int attribute)
{
	int value = 0;

	return device_attribute(dev, attribute, &value) ? 0 : value;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER();
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	ENTER();
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)devices.count;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	ENTER_DEVICE(name, dev);
	if (len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "%s", (const char *)devices.inventory[dev]->name);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	ENTER_DEVICE(uuid, dev);
	memcpy(uuid->bytes, devices.inventory[dev]->uuid, 16);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid(uuid, dev);
}

EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	ENTER_DEVICE(luid && deviceNodeMask, dev);
	if (devices.inventory[dev]->luid_result)
		return (CUresult)devices.inventory[dev]->luid_result;
	memcpy(luid, devices.inventory[dev]->luid, 8);
	*deviceNodeMask = devices.inventory[dev]->luid_mask;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	ENTER_DEVICE(bytes, dev);
	*bytes = devices.inventory[dev]->total_memory;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	ENTER_DEVICE(pi, dev);
	return device_attribute(dev, attrib, pi);
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	ENTER_DEVICE(major && minor, dev);
	*major = device_number(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	*minor = device_number(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	ENTER_DEVICE(prop, dev);
	prop->maxThreadsPerBlock = device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	for (int i = 0; i < 3; i++) {
		prop->maxThreadsDim[i] =
			device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
		prop->maxGridSize[i] = device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
	}
	prop->sharedMemPerBlock =
		device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
	prop->totalConstantMemory = device_number(dev, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
	prop->SIMDWidth = device_number(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	prop->memPitch = device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
	prop->regsPerBlock = device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
	prop->clockRate = device_number(dev, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
	prop->textureAlign = device_number(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
	return CUDA_SUCCESS;
}

CUresult device_link(struct paracuda_link *link, CUdevice dev)
{
	const struct paracuda_inventory_device *d;

	ENTER_DEVICE(link, dev);
	d = devices.inventory[dev];
	link->generation = d->link_generation;
	link->width = d->link_width;
	link->max_generation = d->link_max_generation;
	link->max_width = d->link_max_width;
	link->own_generation = d->link_own_generation;
	link->class = d->pci_class;
	return CUDA_SUCCESS;
}

static void bus_id(CUdevice dev, char *text, size_t size)
{
	snprintf(text, size, "%04X:%02X:%02X.0",
		 (unsigned)device_number(dev, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
		 (unsigned)device_number(dev, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
		 (unsigned)device_number(dev, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
}

EXPORT CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	ENTER_DEVICE(pciBusId, dev);
	if (len < (int)sizeof("0000:00:00.0"))
		return CUDA_ERROR_INVALID_VALUE;
	bus_id(dev, pciBusId, (size_t)len);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain = 0, bus, device;

	ENTER();
	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &device) != 3) {
		domain = 0;
		if (sscanf(pciBusId, "%x:%x", &bus, &device) != 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (int i = 0; i < (int)devices.count; i++) {
		if ((unsigned)device_number(i, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) == domain &&
		    (unsigned)device_number(i, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) == bus &&
		    (unsigned)device_number(i, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) == device) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

/*
 * Only a server for several processes can limit a context's multiprocessors. Unknown types aren't
 * supported either.
 */
EXPORT CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	(void)type;
	ENTER();
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = 0;
	return CUDA_SUCCESS;
}
