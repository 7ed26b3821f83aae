/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that were reserved, and what is mapped at them. */
#ifndef PARACUDA_VMM_H
#define PARACUDA_VMM_H

#include <pthread.h>

#include "context/handle.h"
#include "devices/device.h"

/* What sizes and addresses are multiples of. */
#define VMM_PAGE ((uint64_t)CUDA_MAPPING_GRANULARITY)

/*
 * Where reservations lie: no layout of Linux uses these addresses, neither here nor on the worker's
 * side.
 */
#define VMM_BASE 0x400000000000u
#define VMM_END 0x500000000000u

/* Memory without an address: it lasts as long as its handle and its mappings. */
struct vmm_memory {
	struct handle handle;
	uint64_t number, bytes;
	CUmemAllocationProp prop;
	bool tiles; /* for sparse arrays: it has no addresses */
	unsigned references; /* of the program */
	unsigned mappings;
};

/* Memory at an address. */
struct vmm_mapping {
	uint64_t base, bytes;
	struct vmm_memory *memory;
	uint8_t access[DEVICES_MAX];
};

struct vmm_reservation {
	struct vmm_reservation *next; /* by address */
	uint64_t base, bytes;
	unsigned mappings;
	struct vmm_mapping *page[]; /* by page, NULL for what isn't mapped */
};

extern pthread_mutex_t vmm_lock;

/* Under the lock: the reservation that holds [base, base + bytes), or NULL. */
struct vmm_reservation *vmm_reserved(uint64_t base, uint64_t bytes);

/* Under the lock: the mapping at an address, or NULL. */
struct vmm_mapping *vmm_mapped(uint64_t address);

/* Under the lock: whether the range consists of whole mappings, without a gap. */
bool vmm_whole(uint64_t base, uint64_t bytes);

/* Under the lock: the memory that a program's handle names, or NULL. */
struct vmm_memory *vmm_memory(CUmemGenericAllocationHandle handle);

/*
 * Cuts a range of mapped memory, which may be several mappings, down to the mapping at an address.
 */
struct memory;
void vmm_narrow(struct memory *m, uint64_t address);

/* The reservation that an address lies in; false if there is none. */
bool vmm_range(uint64_t address, uint64_t *base, uint64_t *bytes);

/* How a device may access what is mapped at an address; -1 where nothing is. */
int vmm_access(uint64_t address, int device);

/* The types of handles as which the memory mapped at an address can be exported. */
uint64_t vmm_handle_types(uint64_t address);

/* Under the lock: gives memory back that nothing refers to. */
CUresult vmm_drop(struct vmm_memory *m);

#endif
