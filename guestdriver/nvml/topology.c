/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a VM's GPUs are joined to one another: which one reaches which one's memory, as the host's
 * NVML says, or, if that isn't known, CUDA. A GPU isn't its own peer; libraries ask all the same.
 * NCCL doesn't start without an answer.
 */
#include <string.h>

#include "nvml.h"

/* nvmlGpuP2PCapsIndex_t */
enum { P2P_READS, P2P_WRITES, P2P_NVLINK, P2P_ATOMICS, P2P_PCI, P2P_KINDS };
/* nvmlGpuP2PStatus_t */
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };

_Static_assert(P2P_KINDS == PARACUDA_P2P, "kinds of access");

EXPORT enum nvml nvmlDeviceGetP2PStatus(const void *first, const void *second, unsigned what,
					int *status)
{
	unsigned other;
	uint8_t way;
	int ok[P2P_KINDS];

	FIND(g, first, status && gpu_of(second) && what < P2P_KINDS);
	other = gpu_index(gpu_of(second));
	if (g->ways.p2p[other][what]) {
		*status = g->ways.p2p[other][what] - 1;
		return NVML_SUCCESS;
	}
	way = g->peer[other];
	ok[P2P_READS] = ok[P2P_WRITES] = way & PEER_ACCESS;
	ok[P2P_NVLINK] = g->nvlinks.to[other];
	ok[P2P_ATOMICS] = way & PEER_ATOMICS;
	ok[P2P_PCI] = 0;
	*status = ok[what] ? P2P_OK : P2P_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceOnSameBoard(const void *first, const void *second, int *same)
{
	FIND(g, first, same && gpu_of(second));
	*same = g == gpu_of(second);
	return NVML_SUCCESS;
}

/* nvmlGpuTopologyLevel_t */
enum { TOPOLOGY_SYSTEM = 50 };

/*
 * How near two are on PCI Express isn't known: they count as far apart. With
 * itself NVML has none.
 */
EXPORT enum nvml nvmlDeviceGetTopologyCommonAncestor(const void *first, const void *second,
						     unsigned *level)
{
	FIND(g, first, level && gpu_of(second));
	if (g == gpu_of(second))
		return NVML_NOT_SUPPORTED;
	*level = TOPOLOGY_SYSTEM;
	return NVML_SUCCESS;
}

/* Tells of all GPUs but one, or of all. */
static void all_but(const struct gpu *one, unsigned *count, void **handles)
{
	unsigned room = handles ? *count : 0, n = 0;

	for (unsigned i = 0; i < gpu_count(); i++) {
		if (gpu_at(i) == one)
			continue;
		if (n < room)
			handles[n] = gpu_at(i);
		n++;
	}
	*count = n;
}

/* GPUs that are as near to another: all, but far away. */
EXPORT enum nvml nvmlDeviceGetTopologyNearestGpus(const void *handle, unsigned level,
						  unsigned *count, void **handles)
{
	FIND(g, handle, count);
	if (level == TOPOLOGY_SYSTEM)
		all_but(g, count, handles);
	else
		*count = 0;
	return NVML_SUCCESS;
}

/* GPUs near a processor: all. */
EXPORT enum nvml nvmlSystemGetTopologyGpuSet(unsigned processor, unsigned *count, void **handles)
{
	(void)processor;
	if (!gpu_count())
		return NVML_UNINITIALIZED;
	if (!count)
		return NVML_INVALID_ARGUMENT;
	all_but(NULL, count, handles);
	return NVML_SUCCESS;
}

/* A record's first word is its version, with the record's size in the low three bytes. */
#define RECORD(size, version) ((size) | (version) << 24)

static enum nvml all_zero(uint32_t *record)
{
	memset(record + 1, 0, (*record & 0xffffff) - sizeof(*record));
	return NVML_SUCCESS;
}

/* Confidential computing, which a VM's GPU isn't part of: all is off. */
EXPORT enum nvml nvmlSystemGetConfComputeState(uint32_t state[3])
{
	if (!gpu_count())
		return NVML_UNINITIALIZED;
	if (!state)
		return NVML_INVALID_ARGUMENT;
	memset(state, 0, 3 * sizeof(*state));
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlSystemGetConfComputeSettings(uint32_t *settings)
{
	if (!gpu_count())
		return NVML_UNINITIALIZED;
	if (!settings)
		return NVML_INVALID_ARGUMENT;
	if (*settings != RECORD(20u, 1u))
		return NVML_VERSION_MISMATCH;
	return all_zero(settings);
}
