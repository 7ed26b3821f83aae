/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of NVML as far as this library offers it. */
#ifndef PARACUDA_NVML_H
#define PARACUDA_NVML_H

#include <stdint.h>

#include "gpu.h"

#define EXPORT __attribute__((visibility("default")))

enum nvml {
	NVML_SUCCESS = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_VERSION_MISMATCH = 25,
	NVML_UNKNOWN = 999,
};

struct memory {
	uint64_t total, free, used;
};

struct memory_v2 {
	uint32_t version;
	uint64_t total, reserved, free, used;
};

struct pci_info {
	char legacy[16];
	uint32_t domain, bus, device, pci_device, pci_subsystem;
	char id[32];
};

_Static_assert(sizeof(struct memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");

/* The GPU of a handle, or NULL when the library isn't initialised or the handle is none. */
struct gpu *gpu_of(const void *handle);

/* GPU number i, or NULL. */
struct gpu *gpu_at(unsigned i);
unsigned gpu_index(const struct gpu *g);
unsigned gpu_count(void);

/* What is wrong with a handle. */
enum nvml gpu_error(void);

#endif
