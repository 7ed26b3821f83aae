/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU's NVLinks, as they are on the host. Those to GPUs that the VM doesn't have aren't up. A GPU
 * has none if it has no links on the host, or they aren't known.
 */
#include <string.h>

#include "nvml.h"

enum { REMOTE_SWITCH = 2, REMOTE_UNKNOWN = 255 };

enum { CAPABILITIES = 6, LINKS_MAX = 18 };

/* A GPU's link, or NULL and the error. */
static const struct paracuda_nvlink *link_at(const struct gpu *g, unsigned n, enum nvml *result)
{
	*result = n < LINKS_MAX ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
	if (n >= g->nvlinks.count || n >= LINKS_MAX)
		return NULL;
	*result = NVML_SUCCESS;
	return &g->nvlinks.link[n];
}

EXPORT enum nvml nvmlDeviceGetNvLinkState(const void *handle, unsigned n, unsigned *up)
{
	const struct paracuda_nvlink *link;
	enum nvml result;

	FIND(g, handle, up);
	link = link_at(g, n, &result);
	if (link)
		*up = link->version != 0;
	return result;
}

/* As link_at, for a link that must be up. */
static const struct paracuda_nvlink *link_up(const struct gpu *g, unsigned n, enum nvml *result)
{
	const struct paracuda_nvlink *link = link_at(g, n, result);

	if (link && !link->version) {
		*result = NVML_NOT_SUPPORTED;
		return NULL;
	}
	return link;
}

EXPORT enum nvml nvmlDeviceGetNvLinkVersion(const void *handle, unsigned n, unsigned *version)
{
	const struct paracuda_nvlink *link;
	enum nvml result;

	FIND(g, handle, version);
	link = link_up(g, n, &result);
	if (link)
		*version = link->version;
	return result;
}

EXPORT enum nvml nvmlDeviceGetNvLinkCapability(const void *handle, unsigned n, unsigned what,
					       unsigned *has)
{
	const struct paracuda_nvlink *link;
	enum nvml result;

	FIND(g, handle, has);
	link = link_up(g, n, &result);
	if (link && what >= CAPABILITIES)
		return NVML_INVALID_ARGUMENT;
	if (link)
		*has = link->capabilities >> what & 1;
	return result;
}

EXPORT enum nvml nvmlDeviceGetNvLinkRemoteDeviceType(const void *handle, unsigned n, unsigned *type)
{
	const struct paracuda_nvlink *link;
	enum nvml result;

	FIND(g, handle, type);
	link = link_up(g, n, &result);
	if (link)
		*type = link->remote;
	return result;
}

/* The GPU at the other end, or NULL. */
static const struct gpu *remote_gpu(const struct paracuda_nvlink *link)
{
	for (unsigned i = 0; link->remote == 0 && i < gpu_count(); i++) {
		const struct gpu *g = gpu_at(i);

		if ((uint32_t)g->domain == link->domain && (uint32_t)g->bus == link->bus &&
		    (uint32_t)g->device == link->device)
			return g;
	}
	return NULL;
}

EXPORT enum nvml nvmlDeviceGetNvLinkRemotePciInfo_v2(const void *handle, unsigned n,
						     struct pci_info *out)
{
	const struct paracuda_nvlink *link;
	struct gpu place = { 0 };
	enum nvml result;

	FIND(g, handle, out);
	link = link_up(g, n, &result);
	if (!link)
		return result;
	if (link->remote == REMOTE_UNKNOWN)
		return NVML_NOT_SUPPORTED;
	memset(out, 0, sizeof(*out));
	out->domain = link->domain;
	out->bus = link->bus;
	out->device = link->device;
	if (link->domain == UINT32_MAX) { /* as NVML says of a place that nobody knows */
		out->pci_device = UINT32_MAX;
	} else if (remote_gpu(link)) {
		out->pci_device = remote_gpu(link)->pci_device;
		out->pci_subsystem = remote_gpu(link)->pci_subsystem;
	}
	place.domain = (int)link->domain;
	place.bus = (int)link->bus;
	place.device = (int)link->device;
	gpu_bus_text(&place, out->id);
	memcpy(out->legacy, out->id + 4, strlen(out->id + 4));
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetNvLinkRemotePciInfo(const void *handle, unsigned n,
						  struct pci_info *out)
{
	return nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, n, out);
}

/* Fields of links: some name their link, for others `scope` does. */
enum {
	SPEED_L0 = 84,
	SPEED_L5 = 89,
	SPEED_COMMON = 90,
	LINK_COUNT = 91,
	SPEED_L6 = 132,
	SPEED_L11 = 137,
	REMOTE_LINK = 146,
	SWITCH_LINK_COUNT = 147,
	GET_SPEED = 164,
	GET_STATE = 165,
	GET_VERSION = 166,
};

/* Whether a field is named after a link. */
static int is_named(unsigned field)
{
	return (field >= SPEED_L0 && field <= SPEED_L5) ||
	       (field >= SPEED_L6 && field <= SPEED_L11);
}

/* The link of a field. */
static unsigned link_of(const struct field_value *f)
{
	if (f->field >= SPEED_L0 && f->field <= SPEED_L5)
		return f->field - SPEED_L0;
	if (f->field >= SPEED_L6 && f->field <= SPEED_L11)
		return f->field - SPEED_L6 + 6;
	return f->scope;
}

/* How many links lead to switches. */
static unsigned switch_links(const struct gpu *g)
{
	unsigned n = 0;

	for (unsigned i = 0; i < g->nvlinks.count && i < LINKS_MAX; i++)
		n += g->nvlinks.link[i].version && g->nvlinks.link[i].remote == REMOTE_SWITCH;
	return n;
}

enum nvml nvlink_field(const struct gpu *g, const struct field_value *f, unsigned *value)
{
	const struct paracuda_nvlink *link;
	enum nvml result;

	if (f->field == LINK_COUNT) {
		*value = g->nvlinks.count;
		return *value ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
	}
	if (f->field == SWITCH_LINK_COUNT) { /* known even where there are no links */
		*value = switch_links(g);
		return NVML_SUCCESS;
	}
	if (f->field == SPEED_COMMON) {
		*value = g->nvlinks.common_speed;
		return *value ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
	}
	link = link_at(g, link_of(f), &result);
	if (!link)
		return result;
	if (is_named(f->field) && !link->named)
		return NVML_NOT_SUPPORTED;
	switch (f->field) {
	case GET_STATE:
		*value = link->version != 0;
		return NVML_SUCCESS;
	case GET_VERSION:
		*value = link->version;
		return link->version ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
	case REMOTE_LINK:
		if (!link->remote_link)
			return NVML_NOT_SUPPORTED;
		*value = link->remote_link - 1;
		return NVML_SUCCESS;
	default: /* a speed */
		*value = link->speed;
		return link->speed ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
	}
}

int nvlink_has_field(unsigned field)
{
	return is_named(field) || field == SPEED_COMMON || field == LINK_COUNT ||
	       field == REMOTE_LINK || field == SWITCH_LINK_COUNT ||
	       (field >= GET_SPEED && field <= GET_VERSION);
}
