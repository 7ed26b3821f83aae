/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from a GPU's compute capability and its place on the bus. */
#include <string.h>

#include "nvml.h"

#define ARCHITECTURE_UNKNOWN 0xffffffffu

/*
 * nvmlDeviceArchitecture_t and the FP32 cores of a multiprocessor, by compute capability (CUDA's
 * programming guide).
 */
static const struct generation {
	int major, minor_from;
	unsigned architecture, cores;
} generations[] = {
	{ 12, 0, 10, 128 }, { 10, 0, 10, 128 }, { 9, 0, 9, 128 }, { 8, 9, 8, 128 },
	{ 8, 6, 7, 128 },   { 8, 0, 7, 64 },	{ 7, 5, 6, 64 },  { 7, 0, 5, 64 },
	{ 6, 1, 4, 128 },   { 6, 0, 4, 64 },
};

static const struct generation *generation_of(const struct gpu *g)
{
	for (size_t i = 0; i < sizeof(generations) / sizeof(generations[0]); i++)
		if (g->major == generations[i].major && g->minor >= generations[i].minor_from)
			return &generations[i];
	return NULL;
}

EXPORT enum nvml nvmlDeviceGetArchitecture(const void *handle, unsigned *out)
{
	FIND(g, handle, out);
	*out = generation_of(g) ? generation_of(g)->architecture : ARCHITECTURE_UNKNOWN;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetNumGpuCores(const void *handle, unsigned *out)
{
	FIND(g, handle, out);
	if (!generation_of(g))
		return NVML_NOT_SUPPORTED;
	*out = (unsigned)g->processors * generation_of(g)->cores;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetMemoryBusWidth(const void *handle, unsigned *out)
{
	FIND(g, handle, out);
	if (g->bus_width <= 0)
		return NVML_NOT_SUPPORTED;
	*out = (unsigned)g->bus_width;
	return NVML_SUCCESS;
}

/* A class that isn't known is 0. */
EXPORT enum nvml nvmlDeviceGetPciInfoExt(const void *handle, struct pci_info_ext *out)
{
	uint32_t version;
	FIND(g, handle, out);
	version = out->version;
	if (version != (sizeof(*out) | 1u << 24))
		return NVML_VERSION_MISMATCH;
	memset(out, 0, sizeof(*out));
	out->version = version;
	out->domain = (unsigned)g->domain;
	out->bus = (unsigned)g->bus;
	out->device = (unsigned)g->device;
	out->pci_device = g->pci_device;
	out->pci_subsystem = g->pci_subsystem;
	out->class = g->link.class >> 8;
	out->subclass = g->link.class & 0xff;
	gpu_bus_text(g, out->id);
	return NVML_SUCCESS;
}

#define UNSIGNED_INT 1 /* nvmlValueType_t */

/* Fields other than NVLinks' are of the hardware's state, which isn't available. */
static void field(const struct gpu *g, struct field_value *f)
{
	unsigned value = 0;

	f->result = nvlink_has_field(f->field) ? nvlink_field(g, f, &value) : NVML_NOT_SUPPORTED;
	f->type = UNSIGNED_INT;
	f->value = value;
}

EXPORT enum nvml nvmlDeviceGetFieldValues(const void *handle, int count, struct field_value *values)
{
	FIND(g, handle, values);
	if (count <= 0)
		return NVML_INVALID_ARGUMENT;
	for (int i = 0; i < count; i++)
		field(g, &values[i]);
	return NVML_SUCCESS;
}

/* S-class units, and excluded GPUs: there are none in a VM. */
static enum nvml none(unsigned *out)
{
	if (!gpu_count())
		return NVML_UNINITIALIZED;
	if (!out)
		return NVML_INVALID_ARGUMENT;
	*out = 0;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlUnitGetCount(unsigned *out)
{
	return none(out);
}
EXPORT enum nvml nvmlGetExcludedDeviceCount(unsigned *out)
{
	return none(out);
}
EXPORT enum nvml nvmlGetBlacklistDeviceCount(unsigned *out)
{
	return none(out);
}
