/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a VM's GPUs are joined, to one another and to processors. None is joined to another: libcuda.so.1 grants no peer
 * access. Libraries ask of each pair, of a GPU with itself too: NCCL doesn't start without an answer.
 */
#include <string.h>

#include "nvml.h"

enum { P2P_READ = 0, P2P_LAST = 5 };			 /* nvmlGpuP2PCapsIndex_t */
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };		 /* nvmlGpuP2PStatus_t */
enum { TOPOLOGY_INTERNAL = 0, TOPOLOGY_SYSTEM = 50 };	 /* nvmlGpuTopologyLevel_t */

/* Finds the GPUs of a pair. */
#define FIND_PAIR(a, first, b, second, out) \
	const struct gpu *b;                \
	FIND(a, first, out);                \
	b = gpu_of(second);                 \
	if (!b)                             \
		return NVML_INVALID_ARGUMENT

EXPORT enum nvml nvmlDeviceGetP2PStatus(const void *first, const void *second, int what, int *status)
{
	FIND_PAIR(a, first, b, second, status);
	if (what < P2P_READ || what > P2P_LAST)
		return NVML_INVALID_ARGUMENT;
	*status = a == b ? P2P_OK : P2P_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetTopologyCommonAncestor(const void *first, const void *second, int *level)
{
	FIND_PAIR(a, first, b, second, level);
	*level = a == b ? TOPOLOGY_INTERNAL : TOPOLOGY_SYSTEM;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceOnSameBoard(const void *first, const void *second, int *same)
{
	FIND_PAIR(a, first, b, second, same);
	*same = a == b;
	return NVML_SUCCESS;
}

/* A fabric of NVLinks beyond this machine: nvmlGpuFabricInfo_t, and what later versions have before and after it. */
struct fabric {
	uint8_t cluster[16];
	uint32_t status, clique;
	uint8_t state; /* 0: there is none */
	uint8_t padding[3];
};

_Static_assert(sizeof(struct fabric) == 28, "nvmlGpuFabricInfo_t");

EXPORT enum nvml nvmlDeviceGetGpuFabricInfo(const void *handle, struct fabric *out)
{
	FIND(g, handle, out);
	(void)g;
	memset(out, 0, sizeof(*out));
	return NVML_SUCCESS;
}

/* The version holds the record's size in its low three bytes. */
EXPORT enum nvml nvmlDeviceGetGpuFabricInfoV(const void *handle, uint32_t *out)
{
	FIND(g, handle, out);
	(void)g;
	if (*out != (36 | 2u << 24) && *out != (40 | 3u << 24))
		return NVML_VERSION_MISMATCH;
	memset(out + 1, 0, (*out & 0xffffff) - sizeof(*out));
	return NVML_SUCCESS;
}
