/* SPDX-License-Identifier: Apache-2.0 */
/* What is allocated where: the address ranges that CUDA knows of in this process. */
#ifndef PARACUDA_MEMORY_MAP_H
#define PARACUDA_MEMORY_MAP_H

#include <stdbool.h>

#include "context/context.h"

enum memory_kind {
	MEMORY_NONE, /* ordinary memory of the process */
	MEMORY_DEVICE, /* cuMemAlloc and its like */
	MEMORY_GLOBAL, /* a variable of a module */
	MEMORY_HOST, /* cuMemHostAlloc */
	MEMORY_REGISTERED, /* cuMemHostRegister */
	MEMORY_MAPPED, /* cuMemMap */
	MEMORY_SHARED, /* cuIpcOpenMemHandle */
	MEMORY_MANAGED, /* cuMemAllocManaged, and the managed variables of a module */
};

/* Host memory that the worker has pinned as one: where it begins in the map. */
struct registration {
	uint64_t base;
	uint64_t bytes;
	uint64_t offset;
	uint32_t map;
};

/*
 * What holds its pages: its own pins, and those that hold its first and its last page where others
 * have these, too.
 */
#define MEMORY_PINS 3
struct pins;
struct slab;

struct memory {
	uint64_t base;
	uint64_t bytes;
	enum memory_kind kind;
	int device;
	unsigned flags;
	uint64_t id; /* unique in this process */
	struct context *context; /* NULL for the variables of a library */
	bool variables; /* of a module or library: it is unloaded with it */
	uint64_t pool; /* that it is from, 0 for none */
	bool unsynced; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS was changed */
	bool graph; /* allocated by the launches of a graph, at the same address each time */
	uint64_t pinned_base, pinned_bytes; /* of host memory: whole pages */
	struct registration *registrations;
	unsigned registrations_count;
	struct pins *pins[MEMORY_PINS];
	struct slab *slab; /* that it is cut from, or NULL */
};

/* Copies the range that contains the address. */
bool memory_find(uint64_t address, struct memory *m);

/*
 * Whether copies of a range wait until they are over, as programs see it: at first only those of
 * managed memory do.
 */
static inline bool memory_synced(const struct memory *m)
{
	return m->unsynced != (m->kind == MEMORY_MANAGED);
}

/* Sets that for the range that contains the address, if there is one. */
void memory_sync(uint64_t address, bool synced);

/* Whether [address, address + bytes) touches any range. */
bool memory_overlaps(uint64_t address, uint64_t bytes);

/* Copies a range that touches [address, address + bytes), if any does. */
bool memory_touching(uint64_t address, uint64_t bytes, struct memory *m);

/*
 * Enters a range; false when there is no memory. Ranges of device memory that it overlaps are stale
 * and go.
 */
bool memory_enter(const struct memory *m);

/*
 * Removes the range that begins at base and is of that kind. Memory of a graph stays known: the
 * next launch allocates it again. It is forgotten when something else is entered there.
 */
bool memory_take(uint64_t base, enum memory_kind kind, struct memory *m);

/* Whether a context has pinned memory, managed memory too. */
bool memory_has_pinned(const struct context *c);

/*
 * Removes a range of a context's pinned memory, managed memory too; false when there is none left.
 */
bool memory_take_pinned(const struct context *c, struct memory *m);

/*
 * Removes [base, base + bytes) from the range of mapped memory that holds it, which may leave two.
 */
void memory_cut(uint64_t base, uint64_t bytes);

/* Removes the ranges of a context's device memory. */
void memory_forget_context(struct context *c);

/* The kind of memory at an address. */
static inline enum memory_kind memory_kind_at(uint64_t address, struct memory *m)
{
	return memory_find(address, m) ? m->kind : MEMORY_NONE;
}

static inline bool memory_on_device(const struct memory *m)
{
	return m->kind == MEMORY_DEVICE || m->kind == MEMORY_GLOBAL || m->kind == MEMORY_MAPPED ||
	       m->kind == MEMORY_SHARED;
}

static inline bool memory_on_host(const struct memory *m)
{
	return m->kind == MEMORY_HOST || m->kind == MEMORY_REGISTERED;
}

/* Whether it is memory of this process, with pages that the worker has. */
static inline bool memory_pinned(const struct memory *m)
{
	return memory_on_host(m) || m->kind == MEMORY_MANAGED;
}

/* Whether commands name the memory by its address, as the device knows it. */
static inline bool memory_by_address(const struct memory *m)
{
	return memory_on_device(m) || m->kind == MEMORY_MANAGED;
}

/* Where the next host allocation goes, if the place is free. */
extern uint64_t host_memory_next;

/* Whether an address lies in the window where the worker allocates device memory. */
bool memory_in_window(uint64_t address);

#endif
