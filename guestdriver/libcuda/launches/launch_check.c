/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be wrong with a launch: what the driver refuses for any function, and when it must be
 * asked.
 */
#define _GNU_SOURCE
#include "launches/launch.h"

#include <string.h>

#include "code/function.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

/* Clusters with a dimension beyond this aren't remembered. */
#define CLUSTER_DIM_MAX 31u

/* Whether each of three dimensions is at least 1 and at most what the device can. */
static bool within(const uint32_t *n, const int32_t *most)
{
	return n[0] - 1 < (uint32_t)most[0] && n[1] - 1 < (uint32_t)most[1] &&
	       n[2] - 1 < (uint32_t)most[2];
}

CUresult launch_check(const struct shape *s, CUdevice dev)
{
	const int32_t *most = devices.inventory[dev]->attribute;
	uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];

	return within(s->grid, most + CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) &&
			       within(s->block, most + CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
			       threads <=
				       (uint32_t)most[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_VALUE;
}

static bool is_cluster(const CUlaunchAttribute *a)
{
	return a->value.clusterDim.x && a->value.clusterDim.y && a->value.clusterDim.z;
}

static bool is_known(const CUlaunchAttribute *a, CUdevice dev)
{
	int value, domains = device_number(dev, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
	const uint8_t *byte = (const uint8_t *)&a->value;

	memcpy(&value, &a->value, sizeof(value));
	switch (a->id) {
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		/* two bytes: the domain of the device's own memory, and of others' */
		return byte[0] < domains && byte[1] < domains;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return value >= 0 && value <= 2;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return value >= 0 && value <= 1;
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return value >= 0 && value <= 100;
	default:
		return is_launch_attribute((uint64_t)(int64_t)a->id);
	}
}

CUresult launch_attribute(const CUlaunchAttribute *a, CUdevice dev)
{
	if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && !is_cluster(a))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return is_known(a, dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int attribute(const struct description *d, int id)
{
	return __atomic_load_n(&d->attribute[id], __ATOMIC_RELAXED);
}

/*
 * The cluster of a launch: that of its attribute, else that which the function requires; zeros for
 * none.
 */
static void find_cluster(const struct description *d, const CUlaunchAttribute *attributes,
			 unsigned count, uint32_t *cluster)
{
	for (unsigned i = 0; i < 3; i++)
		cluster[i] =
			(uint32_t)attribute(d, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + (int)i);
	for (unsigned i = 0; i < count; i++)
		if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			memcpy(cluster, &attributes[i].value.clusterDim, 3 * sizeof(cluster[0]));
}

/* Whether the blocks of a grid make up whole clusters. */
static bool divides(const uint32_t *cluster, const uint32_t *grid)
{
	for (unsigned i = 0; i < 3; i++)
		if (cluster[i] && grid[i] % cluster[i])
			return false;
	return true;
}

/*
 * All that a function may require of a launch, as one number: block (29 bits), cluster (15), and
 * the shared memory of clusters, which must have room together; 0 if it doesn't fit.
 */
static uint64_t configuration(const struct shape *s, const uint32_t *cluster)
{
	uint64_t n = s->block[0] | s->block[1] << 11 | s->block[2] << 22;

	if (!(cluster[0] | cluster[1] | cluster[2]))
		return n;
	for (unsigned i = 0; i < 3; i++) {
		if (cluster[i] > CLUSTER_DIM_MAX)
			return 0;
		n |= (uint64_t)cluster[i] << (29 + 5 * i);
	}
	return s->shared >> 20 ? 0 : n | (uint64_t)s->shared << 44;
}

static bool is_proven(const struct description *d, uint64_t configuration)
{
	for (unsigned i = 0; i < PROVEN; i++)
		if (__atomic_load_n(&d->proven[i], __ATOMIC_RELAXED) == configuration)
			return true;
	return false;
}

void launch_proven(struct description *d, uint64_t configuration)
{
	unsigned i = __atomic_fetch_add(&d->proofs, 1, __ATOMIC_RELAXED) % PROVEN;

	__atomic_store_n(&d->proven[i], configuration, __ATOMIC_RELAXED);
}

/*
 * A function with a lower limit of threads may require a certain block, which no attribute tells,
 * and clusters have rules of their own: so one launch of each configuration is waited for.
 */
static bool is_unproven(const struct shape *s, const struct description *d,
			const CUlaunchAttribute *attributes, unsigned count, uint64_t *proof)
{
	uint32_t cluster[3];

	find_cluster(d, attributes, count, cluster);
	if (!divides(cluster, s->grid))
		return true;
	*proof = configuration(s, cluster);
	return !*proof || !is_proven(d, *proof);
}

/*
 * Whether a function takes parameters of so many bytes. The driver takes fewer than a function has,
 * but not none: NCCL passes as much as a launch uses of a structure of 4 KiB.
 */
static bool takes(const struct description *d, size_t bytes)
{
	return bytes <= d->parameter_bytes && (bytes || !d->parameter_bytes);
}

bool launch_doubtful(const struct shape *s, const struct description *d, CUdevice dev, size_t bytes,
		     const CUlaunchAttribute *attributes, unsigned count, uint64_t *proof)
{
	int threads = attribute(d, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
	    most = device_number(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	bool clusters = __atomic_load_n(&d->clusters, __ATOMIC_RELAXED);

	*proof = 0;
	for (unsigned i = 0; i < count; i++) {
		if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ||
		    attributes[i].id == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)
			return true;
		clusters |= attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
	}
	if (s->block[0] * s->block[1] * s->block[2] > (unsigned)threads ||
	    s->shared > (unsigned)attribute(d, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) ||
	    !takes(d, bytes))
		return true;
	return (clusters || threads < most) && is_unproven(s, d, attributes, count, proof);
}
