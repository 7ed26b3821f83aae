/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric of NVLinks that a GPU is part of, as the host's NVML described it when the VM's device
 * started. A GPU about which the host knows nothing is part of none: its state is 0.
 */
#include <string.h>

#include "nvml.h"

/* nvmlGpuFabricInfo_t */
struct fabric {
	uint8_t cluster[16];
	uint32_t status, clique;
	uint8_t state, padding[3];
};

/* nvmlGpuFabricInfoV_t; version 2 ends before the health's summary. */
struct fabric_record {
	uint32_t version;
	struct fabric fabric;
	uint32_t health;
	uint8_t summary, padding[3];
};

_Static_assert(sizeof(struct fabric) == 28, "nvmlGpuFabricInfo_t");
_Static_assert(offsetof(struct fabric_record, summary) == 36, "nvmlGpuFabricInfo_v2_t");
_Static_assert(sizeof(struct fabric_record) == 40, "nvmlGpuFabricInfo_v3_t");

static struct fabric told(const struct paracuda_fabric *known)
{
	struct fabric f = {
		.status = known->status,
		.clique = known->clique,
		.state = known->state,
	};

	memcpy(f.cluster, known->cluster, sizeof(f.cluster));
	return f;
}

EXPORT enum nvml nvmlDeviceGetGpuFabricInfo(const void *handle, struct fabric *out)
{
	FIND(g, handle, out);
	*out = told(&g->fabric);
	return NVML_SUCCESS;
}

#define VERSION_2 (36 | 2u << 24)
#define VERSION_3 (40 | 3u << 24)

EXPORT enum nvml nvmlDeviceGetGpuFabricInfoV(const void *handle, uint32_t *out)
{
	struct fabric_record r;
	FIND(g, handle, out);

	if (*out != VERSION_2 && *out != VERSION_3)
		return NVML_VERSION_MISMATCH;
	r = (struct fabric_record){
		.version = *out,
		.fabric = told(&g->fabric),
		.health = g->fabric.health,
		.summary = g->fabric.summary,
	};
	memcpy(out, &r, *out == VERSION_2 ? offsetof(struct fabric_record, summary) : sizeof(r));
	return NVML_SUCCESS;
}
