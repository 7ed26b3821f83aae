/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a struct gpu for each GPU to standard output. With the argument "memory" it makes contexts, to know what is free. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

typedef int CUresult;
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int room, int device);
CUresult cuDeviceGetUuid_v2(void *uuid, int device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, int device);
CUresult cuDeviceGetAttribute(int *value, int attribute, int device);
CUresult cuDevicePrimaryCtxRetain(void **context, int device);
CUresult cuCtxSetCurrent(void *context);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuGetExportTable(const void **table, const void *id);

/* Device attributes of the driver API. */
enum {
	PROCESSORS = 16, PCI_BUS = 33, PCI_DEVICE = 34, BUS_WIDTH = 37, PCI_DOMAIN = 50, MAJOR = 75, MINOR = 76,
	PCI_DEVICE_NUMBER = 139, PCI_SUBSYSTEM_NUMBER = 140,
};

static void ask_memory(struct gpu *g, int device)
{
	size_t free, total;
	void *context;

	if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context) || cuMemGetInfo_v2(&free, &total))
		return;
	g->free = free;
	g->total = total;
}

/* CUDA tells nothing of the link: the guest's libcuda does. */
static void ask_link(struct gpu *g, int device)
{
	static const uint8_t id[16] = { PARACUDA_TABLE_ID };
	const struct paracuda_table *own;
	const void *table;

	if (cuGetExportTable(&table, id))
		return;
	own = table;
	if (own->bytes >= sizeof(*own))
		own->device_link(&g->link, device);
}

/* An attribute, 0 where it isn't known. */
static uint32_t number(int attribute, int device)
{
	int value = 0;

	return cuDeviceGetAttribute(&value, attribute, device) ? 0 : (uint32_t)value;
}

static void ask(struct gpu *g, int device)
{
	size_t total = 0;
	int version = 0;

	memset(g, 0, sizeof(*g));
	cuDeviceGetName(g->name, sizeof(g->name), device);
	cuDeviceGetUuid_v2(g->uuid, device);
	cuDeviceTotalMem_v2(&total, device);
	cuDriverGetVersion(&version);
	g->total = g->free = total;
	g->cuda = (uint32_t)version;
	cuDeviceGetAttribute(&g->processors, PROCESSORS, device);
	cuDeviceGetAttribute(&g->bus, PCI_BUS, device);
	cuDeviceGetAttribute(&g->device, PCI_DEVICE, device);
	cuDeviceGetAttribute(&g->domain, PCI_DOMAIN, device);
	cuDeviceGetAttribute(&g->major, MAJOR, device);
	cuDeviceGetAttribute(&g->minor, MINOR, device);
	cuDeviceGetAttribute(&g->bus_width, BUS_WIDTH, device);
	g->pci_device = number(PCI_DEVICE_NUMBER, device);
	g->pci_subsystem = number(PCI_SUBSYSTEM_NUMBER, device);
	ask_link(g, device);
}

int main(int argc, char **argv)
{
	int count = 0;
	struct gpu g;

	/* A program's choice of devices is not for these questions. */
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (cuInit(0) || cuDeviceGetCount(&count))
		return 1;
	for (int i = 0; i < count; i++) {
		ask(&g, i);
		if (argc > 1 && !strcmp(argv[1], "memory"))
			ask_memory(&g, i);
		if (fwrite(&g, sizeof(g), 1, stdout) != 1)
			return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
