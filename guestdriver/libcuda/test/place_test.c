/* SPDX-License-Identifier: Apache-2.0 */
/* Places on the bus: those of the VM, in every answer that has one. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "abi/cuda_abi.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "devices/place.h"
#include "fake_worker.h"
#include "transport/transport.h"

#define BUS "../../devices/pci0000:00/0000:00:1c.1/10000:fe:1a.0/virtio3/misc/paracuda"

static void parses(void)
{
	static const char *const without[] = {
		"",
		"/",
		"../../devices/platform/virtio_uml/virtio0/misc/paracuda",
		"../../devices/virtual/misc/paracuda",
		"../../devices/pci0000:00/0000:00:1c",
		"0000:00:1c.1",
	};
	struct place p = { 1, 2, 3 };

	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		CHECK(!place_parse(without[i], &p));
	CHECK_IS(1, p.domain);
	CHECK(place_parse(BUS, &p));
	CHECK_IS(0x10000, p.domain);
	CHECK_IS(0xfe, p.bus);
	CHECK_IS(0x1a, p.device);
}

static int on_a_bus(char *path, size_t room)
{
	snprintf(path, room, "%s", BUS);
	return 0;
}

static int nowhere(char *path, size_t room)
{
	(void)path;
	(void)room;
	return ENOENT;
}

static int number(CUdevice device, int attribute)
{
	int value = -1;

	CHECK_IS(CUDA_SUCCESS, cuDeviceGetAttribute(&value, attribute, device));
	return value;
}

/* All of CUDA's ways to tell a place agree. */
static void tells(CUdevice device, int want)
{
	char text[32], expected[32];
	CUdevice found = -1;

	CHECK_IS(0x10000, number(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
	CHECK_IS(0xfe, number(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
	CHECK_IS(want, number(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
	CHECK_IS(CUDA_SUCCESS, cuDeviceGetPCIBusId(text, sizeof(text), device));
	snprintf(expected, sizeof(expected), "10000:FE:%02X.0", want);
	CHECK_IS(0, strcmp(text, expected));
	CHECK_IS(CUDA_SUCCESS, cuDeviceGetByPCIBusId(&found, text));
	CHECK_IS(device, found);
}

/* Links lead to the other GPU's new place; those to a switch stay. */
static void links_lead(void)
{
	static struct paracuda_inventory_device d[2];

	for (int i = 0; i < 2; i++) {
		d[i].attribute[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = 7 + i;
		d[i].nvlinks = 2;
		d[i].nvlink_version[0] = d[i].nvlink_version[1] = 6;
		d[i].nvlink_place[0] = (uint64_t)(8 - i) << 8;
		d[i].nvlink_place[1] = (uint64_t)(8 - i) << 8;
		d[i].nvlink_remote[1] = 2;
	}
	place_devices(d, 2);
	CHECK(d[0].nvlink_place[0] == (0x10000ull << 32 | 0xfe1b));
	CHECK(d[1].nvlink_place[0] == (0x10000ull << 32 | 0xfe1a));
	CHECK(d[0].nvlink_place[1] == 0x800);
}

int main(void)
{
	struct paracuda_inventory_device d;
	struct transport mine;

	parses();
	fake_install();
	mine = *transport;
	transport = &mine;

	/* Where the device isn't on a bus the host's place stays. */
	memset(&d, 0, sizeof(d));
	d.attribute[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = 7;
	place_devices(&d, 1);
	mine.path = nowhere;
	place_devices(&d, 1);
	CHECK_IS(7, d.attribute[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID]);

	mine.path = on_a_bus;
	links_lead();
	fake.devices = 3;
	CHECK_IS(CUDA_SUCCESS, cuInit(0));
	for (int i = 0; i < 3; i++)
		tells(i, 0x1a + i);
	return 0;
}
