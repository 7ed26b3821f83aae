/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of NVML as far as this library offers it. */
#ifndef PARACUDA_NVML_H
#define PARACUDA_NVML_H

#include <stddef.h>
#include <stdint.h>

#include "gpu.h"

/* Of memory: not known. */
#define NOT_AVAILABLE (~0ull)

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
	NVML_MEMORY = 20,
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

struct utilization {
	uint32_t gpu, memory; /* in percent */
};

struct pci_info {
	char legacy[16];
	uint32_t domain, bus, device, pci_device, pci_subsystem;
	char id[32];
};

struct pci_info_ext {
	uint32_t version, domain, bus, device, pci_device, pci_subsystem, class, subclass;
	char id[32];
};

struct field_value {
	uint32_t field, scope;
	int64_t timestamp, latency; /* us */
	int32_t type, result;
	uint64_t value;
};

/* A process that uses a GPU, in version 1 of the interface and in the later ones. */
struct process_v1 {
	uint32_t pid;
	uint64_t memory;
};

struct process {
	uint32_t pid;
	uint64_t memory;
	uint32_t gpu_instance, compute_instance;
};

_Static_assert(sizeof(struct process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct process) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(struct memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct pci_info_ext) == 64, "nvmlPciInfoExt_v1_t");
_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

/* The GPU of a handle; NULL if it is wrong or the library isn't initialised. */
struct gpu *gpu_of(const void *handle);

/* GPU number i, or NULL. */
struct gpu *gpu_at(unsigned i);
unsigned gpu_index(const struct gpu *g);
unsigned gpu_count(void);

/*
 * The processes that use a GPU, as records of `size` bytes: struct process_v1, struct process, or
 * a record that begins with the latter. `count` is how many there is room for; it is set to how
 * many there are.
 */
enum nvml gpu_processes(const void *handle, unsigned *count, void *infos, size_t size);

enum nvml nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);

/* A GPU as it was at most a second ago. Returns 0 or -1. */
int gpu_now(const struct gpu *g, struct gpu *out);

/* What a process has of a GPU; NOT_AVAILABLE where that isn't known. */
uint64_t process_memory(const struct gpu *now, uint32_t pid);

/* Whether a field is of NVLinks, and its value. */
int nvlink_has_field(unsigned field);
enum nvml nvlink_field(const struct gpu *g, const struct field_value *f, unsigned *value);

/* What is wrong with a handle. */
enum nvml gpu_error(void);

/* A GPU's place on the bus, as NVML writes it: in at most 32 bytes. */
void gpu_bus_text(const struct gpu *g, char *to);

/* Finds the GPU of a handle and checks that there is room for the answer. */
#define FIND(g, handle, out)            \
	struct gpu *g = gpu_of(handle); \
	if (!g)                         \
		return gpu_error();     \
	if (!(out))                     \
	return NVML_INVALID_ARGUMENT

#endif
