/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "devices/peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "paracuda_table.h"

_Static_assert(PARACUDA_NVLINKS == PARACUDA_NVLINKS_MAX, "links");
_Static_assert(sizeof(struct paracuda_inventory_pair) == PARACUDA_SIZEOF_INVENTORY_PAIR, "pair");

/* By the worker's ordinals. */
static struct {
	struct paracuda_inventory_pair *from; /* row by row */
	unsigned n;
} pairs;

CUresult peers_load(const void *inventory, size_t bytes)
{
	struct paracuda_inventory s;
	size_t size, at;

	memcpy(&s, inventory, sizeof(s)); /* devices_load has found it large enough */
	size = (size_t)s.devices * s.devices * sizeof(*pairs.from);
	at = sizeof(s) + s.devices * sizeof(struct paracuda_inventory_device);
	free(pairs.from);
	pairs.from = calloc(1, size + 1);
	if (!pairs.from)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pairs.n = s.devices;
	if (bytes - at >= size)
		memcpy(pairs.from, (const uint8_t *)inventory + at, size);
	return CUDA_SUCCESS;
}

struct paracuda_inventory_pair device_pair(CUdevice from, CUdevice to)
{
	return pairs.from[devices.host[from] * pairs.n + devices.host[to]];
}

CUresult device_nvlinks(struct paracuda_nvlinks *links, CUdevice dev)
{
	const struct paracuda_inventory_device *d;

	ENTER_DEVICE(links, dev);
	d = devices.inventory[dev];
	*links = (struct paracuda_nvlinks){
		.count = d->nvlinks < PARACUDA_NVLINKS ? d->nvlinks : PARACUDA_NVLINKS,
		.common_speed = d->nvlink_common_speed,
	};
	for (unsigned i = 0; i < links->count; i++)
		links->link[i] = (struct paracuda_nvlink){
			.version = d->nvlink_version[i],
			.capabilities = d->nvlink_capabilities[i],
			.remote = d->nvlink_remote[i],
			.named = d->nvlink_named >> i & 1,
			.speed = d->nvlink_speed[i],
			.domain = (uint32_t)(d->nvlink_place[i] >> 32),
			.bus = d->nvlink_place[i] >> 8 & 0xff,
			.device = d->nvlink_place[i] & 0xff,
			.remote_link = d->nvlink_remote_link[i],
		};
	for (unsigned i = 0; i < devices.count && i < PARACUDA_GPUS_MAX; i++)
		links->to[i] = device_pair(dev, (CUdevice)i).links;
	return CUDA_SUCCESS;
}

CUresult device_fabric(struct paracuda_fabric *fabric, CUdevice dev)
{
	const struct paracuda_inventory_device *d;

	ENTER_DEVICE(fabric, dev);
	d = devices.inventory[dev];
	*fabric = (struct paracuda_fabric){
		.status = d->fabric_status,
		.clique = d->fabric_clique,
		.health = d->fabric_health,
		.state = d->fabric_state,
		.summary = d->fabric_summary,
	};
	memcpy(fabric->cluster, d->fabric_cluster, sizeof(fabric->cluster));
	return CUDA_SUCCESS;
}

CUresult device_ways(struct paracuda_ways *ways, CUdevice dev)
{
	ENTER_DEVICE(ways, dev);
	memset(ways, 0, sizeof(*ways));
	for (unsigned i = 0; i < devices.count && i < PARACUDA_GPUS_MAX; i++) {
		struct paracuda_inventory_pair pair = device_pair(dev, (CUdevice)i);

		memcpy(ways->p2p[i], pair.p2p, sizeof(ways->p2p[i]));
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	ENTER_DEVICE(canAccessPeer, dev);
	if (!device_valid(peerDev))
		return CUDA_ERROR_INVALID_DEVICE;
	*canAccessPeer = device_pair(dev, peerDev).access != 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
					CUdevice srcDevice, CUdevice dstDevice)
{
	struct paracuda_inventory_pair pair;

	ENTER_DEVICE(value, srcDevice);
	if (!device_valid(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	pair = device_pair(srcDevice, dstDevice);
	switch ((int)attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
		*value = pair.performance;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
		*value = pair.access != 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
		*value = pair.atomics != 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = pair.arrays != 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
		*value = pair.partial != 0;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Picks the capabilities of the operations asked for out of `all`. */
static CUresult tell_atomics(unsigned int *capabilities, const CUatomicOperation *operations,
			     unsigned int count, const uint16_t *all)
{
	if (!capabilities || !operations || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		if (operations[i] < 0 || operations[i] >= PARACUDA_ATOMIC_OPERATIONS)
			return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		capabilities[i] = all[operations[i]];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
						 const CUatomicOperation *operations,
						 unsigned int count, CUdevice srcDevice,
						 CUdevice dstDevice)
{
	struct paracuda_inventory_pair pair;
	CUresult result;

	ENTER();
	if (!device_valid(srcDevice) || !device_valid(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	pair = device_pair(srcDevice, dstDevice);
	result = tell_atomics(capabilities, operations, count, pair.atomic);
	return result ? result : (CUresult)pair.atomic_result;
}

/* None is supported, as the attribute says. */
EXPORT CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
						  const CUatomicOperation *operations,
						  unsigned int count, CUdevice dev)
{
	static const uint16_t none[PARACUDA_ATOMIC_OPERATIONS];

	ENTER();
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return tell_atomics(capabilities, operations, count, none);
}
