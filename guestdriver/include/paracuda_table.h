/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's libcuda.so.1 tells Paracuda's own programs beyond CUDA: a table of functions (cuGetExportTable). */
#ifndef PARACUDA_TABLE_H
#define PARACUDA_TABLE_H

#include <stdint.h>

/* The table's UUID, byte by byte. */
#define PARACUDA_TABLE_ID 'P', 'a', 'r', 'a', 'c', 'u', 'd', 'a', ' ', 't', 'a', 'b', 'l', 'e', 0, 1

/* A GPU's PCI Express link on the host. What isn't known is 0. */
struct paracuda_link {
	uint32_t generation, width;	    /* at the moment when this process connected */
	uint32_t max_generation, max_width; /* where it is plugged in */
	uint32_t own_generation;	    /* at most, wherever it is plugged in */
};

struct paracuda_table {
	uintptr_t bytes; /* of the table */
	int (*device_link)(struct paracuda_link *link, int device);
};

#endif
