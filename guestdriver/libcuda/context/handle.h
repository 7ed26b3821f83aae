/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's handles as this process knows them, so that even a delayed call refuses a stale or
 * made-up one at once. The record of a handle begins with a struct handle.
 */
#ifndef PARACUDA_HANDLE_H
#define PARACUDA_HANDLE_H

#include "context/context.h"

enum handle_kind {
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_MODULE,
	HANDLE_FUNC,
	HANDLE_LIB,
	HANDLE_KERNEL,
	HANDLE_GEXEC,
	HANDLE_POOL,
	HANDLE_MEMORY,
	HANDLE_LINK,
	HANDLE_TEXTURE,
	HANDLE_SURFACE,
	HANDLE_GREEN,
	HANDLE_TEXREF,
	HANDLE_KINDS,
};

struct handle {
	struct context *context; /* it dies with this one; NULL for libraries and kernels */
	uint64_t parent; /* module or library that it is in; of a module its library; or 0 */
	uint64_t id; /* unique in this process */
	unsigned flags;
	int priority;
	void (*release)(struct handle *h); /* frees the record; NULL: free() */
};

/* Makes a record of `bytes` (at least sizeof(struct handle)), zeroed. */
struct handle *handle_new(size_t bytes, uint64_t parent);

/* Enters it under the worker's handle; when that fails, frees it and returns an error. */
CUresult handle_enter(enum handle_kind kind, uint64_t number, struct handle *h);

/* handle_new and handle_enter for handles that need no more. */
CUresult handle_add(enum handle_kind kind, uint64_t number, unsigned flags, int priority);

struct handle *handle_find(enum handle_kind kind, const void *number);

static inline bool handle_known(enum handle_kind kind, const void *number)
{
	return handle_find(kind, number) != NULL;
}

/* Removes and frees it. */
void handle_forget(enum handle_kind kind, const void *number);

/* Removes those of kind whose parent is gone. */
void handle_forget_children(enum handle_kind kind, uint64_t parent);

/* Removes everything that belonged to a context. */
void handle_forget_context(struct context *c);

static inline uint64_t number_of(const void *handle)
{
	return (uint64_t)(uintptr_t)handle;
}

#endif
