/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VM's GPUs. The library asks CUDA for them in a process of its own, so that the caller can
 * still fork. The library itself is that process's program: a container that has the library
 * needs nothing else.
 */
#ifndef PARACUDA_NVML_GPU_H
#define PARACUDA_NVML_GPU_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "paracuda_table.h"

#define GPUS_MAX PARACUDA_GPUS_MAX

/* How a GPU reaches the memory of another. */
enum { PEER_ACCESS = 1, PEER_ATOMICS = 2 };

/* One GPU. */
struct gpu {
	char name[96];
	uint8_t uuid[16];
	uint64_t total, free; /* memory; free is known only where it was asked for */
	uint32_t cuda; /* version of the driver's CUDA */
	int domain, bus, device;
	int major, minor;
	int processors;
	int bus_width; /* of memory, in bits; 0 where unknown */
	uint32_t pci_device,
		pci_subsystem; /* with the vendor's number in the low half; 0 where unknown */
	struct paracuda_link link;
	struct paracuda_nvlinks nvlinks;
	struct paracuda_fabric fabric;
	uint8_t peer[GPUS_MAX]; /* ways to the memory of each GPU, as CUDA says */
	struct paracuda_ways ways; /* as the host's NVML says */
	int usage_known; /* it was asked for, with free memory */
	struct paracuda_usage usage;
};

/* Asks for all GPUs, perhaps with what changes. Returns their number or -1. */
int gpu_query(struct gpu *gpus, int room, int with_memory);

/* Writes NCCL's topology file for these GPUs. */
void nccl_topology(FILE *to, const struct gpu *gpus, int n);

#define GPU_PATH_MAX 4096

/* The path of a file beside this library. Returns 0 or -1. */
int gpu_beside(const char *name, char *path, size_t room);

#endif
