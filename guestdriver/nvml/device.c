/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about one GPU. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

EXPORT enum nvml nvmlDeviceGetCount_v2(unsigned *out)
{
	if (!out)
		return NVML_INVALID_ARGUMENT;
	*out = gpu_count();
	return *out ? NVML_SUCCESS : NVML_UNINITIALIZED;
}

EXPORT enum nvml nvmlDeviceGetCount(unsigned *out)
{
	return nvmlDeviceGetCount_v2(out);
}

EXPORT enum nvml nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	if (!gpu_count())
		return NVML_UNINITIALIZED;
	if (!handle || !gpu_at(index))
		return NVML_INVALID_ARGUMENT;
	*handle = gpu_at(index);
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetHandleByIndex(unsigned index, void **handle)
{
	return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

static void uuid_text(const struct gpu *g, char *to)
{
	const uint8_t *u = g->uuid;

	sprintf(to, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		u[13], u[14], u[15]);
}

void gpu_bus_text(const struct gpu *g, char *to)
{
	sprintf(to, "%08X:%02X:%02X.0", (unsigned)g->domain, (unsigned)g->bus & 255,
		(unsigned)g->device & 255);
}

EXPORT enum nvml nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{
	char text[64];

	if (!gpu_count())
		return NVML_UNINITIALIZED;
	if (!uuid || !handle)
		return NVML_INVALID_ARGUMENT;
	for (unsigned i = 0; i < gpu_count(); i++) {
		uuid_text(gpu_at(i), text);
		if (!strcmp(uuid, text))
			return nvmlDeviceGetHandleByIndex_v2(i, handle);
	}
	return NVML_NOT_FOUND;
}

EXPORT enum nvml nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **handle)
{
	unsigned domain = 0, bus = 0, device = 0;

	if (!gpu_count())
		return NVML_UNINITIALIZED;
	if (!id || !handle)
		return NVML_INVALID_ARGUMENT;
	if (sscanf(id, "%x:%x:%x", &domain, &bus, &device) != 3) {
		domain = 0;
		if (sscanf(id, "%x:%x", &bus, &device) != 2)
			return NVML_INVALID_ARGUMENT;
	}
	for (unsigned i = 0; i < gpu_count(); i++) {
		const struct gpu *g = gpu_at(i);

		if (domain == (unsigned)g->domain && bus == (unsigned)g->bus &&
		    device == (unsigned)g->device)
			return nvmlDeviceGetHandleByIndex_v2(i, handle);
	}
	return NVML_NOT_FOUND;
}

EXPORT enum nvml nvmlDeviceGetHandleByPciBusId(const char *id, void **handle)
{
	return nvmlDeviceGetHandleByPciBusId_v2(id, handle);
}

EXPORT enum nvml nvmlDeviceGetIndex(const void *handle, unsigned *out)
{
	FIND(g, handle, out);
	*out = gpu_index(g);
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetMinorNumber(const void *handle, unsigned *out)
{
	return nvmlDeviceGetIndex(handle, out);
}

EXPORT enum nvml nvmlDeviceGetName(const void *handle, char *name, unsigned length)
{
	FIND(g, handle, name);
	if (strlen(g->name) >= length)
		return NVML_INSUFFICIENT_SIZE;
	strcpy(name, g->name);
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetUUID(const void *handle, char *uuid, unsigned length)
{
	char text[64];
	FIND(g, handle, uuid);
	uuid_text(g, text);
	if (strlen(text) >= length)
		return NVML_INSUFFICIENT_SIZE;
	strcpy(uuid, text);
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetPciInfo_v3(const void *handle, struct pci_info *out)
{
	FIND(g, handle, out);
	memset(out, 0, sizeof(*out));
	out->domain = (unsigned)g->domain;
	out->bus = (unsigned)g->bus;
	out->device = (unsigned)g->device;
	out->pci_device = g->pci_device;
	out->pci_subsystem = g->pci_subsystem;
	gpu_bus_text(g, out->id);
	memcpy(out->legacy, out->id + 4, strlen(out->id + 4));
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetPciInfo_v2(const void *handle, struct pci_info *out)
{
	return nvmlDeviceGetPciInfo_v3(handle, out);
}

EXPORT enum nvml nvmlDeviceGetPciInfo(const void *handle, struct pci_info *out)
{
	return nvmlDeviceGetPciInfo_v3(handle, out);
}

EXPORT enum nvml nvmlDeviceGetCudaComputeCapability(const void *handle, int *major, int *minor)
{
	FIND(g, handle, major);
	if (!minor)
		return NVML_INVALID_ARGUMENT;
	*major = g->major;
	*minor = g->minor;
	return NVML_SUCCESS;
}

static enum nvml memory_of(const struct gpu *g, struct memory *out)
{
	struct gpu now;

	if (gpu_now(g, &now))
		return NVML_UNKNOWN;
	*out = (struct memory){ now.total, now.free, now.total - now.free };
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetMemoryInfo(const void *handle, struct memory *out)
{
	FIND(g, handle, out);
	return memory_of(g, out);
}

EXPORT enum nvml nvmlDeviceGetMemoryInfo_v2(const void *handle, struct memory_v2 *out)
{
	struct memory m;
	enum nvml result;
	FIND(g, handle, out);
	if (out->version != (sizeof(*out) | 2u << 24))
		return NVML_VERSION_MISMATCH;
	result = memory_of(g, &m);
	if (!result) {
		out->total = m.total;
		out->reserved = 0;
		out->free = m.free;
		out->used = m.used;
	}
	return result;
}

/* Answers that are the same for every GPU. */
#define CONSTANT(name, value)                                    \
	EXPORT enum nvml name(const void *handle, unsigned *out) \
	{                                                        \
		FIND(g, handle, out);                            \
		(void)g;                                         \
		*out = (value);                                  \
		return NVML_SUCCESS;                             \
	}

CONSTANT(nvmlDeviceGetBrand, 0)
CONSTANT(nvmlDeviceGetComputeMode, 0)
CONSTANT(nvmlDeviceGetPersistenceMode, 1)
CONSTANT(nvmlDeviceGetDisplayMode, 0)
CONSTANT(nvmlDeviceGetDisplayActive, 0)
CONSTANT(nvmlDeviceGetMultiGpuBoard, 0)
CONSTANT(nvmlDeviceIsMigDeviceHandle, 0)
CONSTANT(nvmlDeviceGetMaxMigDeviceCount, 0)

EXPORT enum nvml nvmlDeviceGetMigMode(const void *handle, unsigned *current, unsigned *pending)
{
	FIND(g, handle, current);
	(void)g;
	*current = 0;
	if (pending)
		*pending = 0;
	return NVML_SUCCESS;
}
