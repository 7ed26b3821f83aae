/* SPDX-License-Identifier: Apache-2.0 */
/* How devices reach one another's memory, as the worker described it at the start. */
#ifndef PARACUDA_PEERS_H
#define PARACUDA_PEERS_H

#include "base/state.h"
#include "devices/device.h"

/* ENTER, and the caller must have given a place for the answer, and a device. */
#define ENTER_DEVICE(out, dev)                            \
	do {                                              \
		ENTER();                                  \
		if (!(out))                               \
			return CUDA_ERROR_INVALID_VALUE;  \
		if (!device_valid(dev))                   \
			return CUDA_ERROR_INVALID_DEVICE; \
	} while (0)

/*
 * Takes the worker's description of how devices reach each other, after devices_load. If it is too
 * short, nothing is known of that.
 */
CUresult peers_load(const void *inventory, size_t bytes);

/* How a device reaches the memory of another one, or its own. */
struct paracuda_inventory_pair device_pair(CUdevice from, CUdevice to);

/* A device's NVLinks on the host (paracuda_table.h). */
struct paracuda_nvlinks;
CUresult device_nvlinks(struct paracuda_nvlinks *links, CUdevice dev);

/* The fabric of NVLinks that it is part of on the host. */
struct paracuda_fabric;
CUresult device_fabric(struct paracuda_fabric *fabric, CUdevice dev);

/* How the host's devices reach each other, as its NVML says. */
struct paracuda_ways;
CUresult device_ways(struct paracuda_ways *ways, CUdevice dev);

#endif
