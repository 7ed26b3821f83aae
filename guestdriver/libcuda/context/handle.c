/* SPDX-License-Identifier: Apache-2.0 */
#include "context/handle.h"

#include <stdlib.h>

#include "base/table.h"

/* Tables have locks of their own; last_id is written atomically. */
static struct {
	struct table tables[HANDLE_KINDS];
	uint64_t last_id;
} state = { { [0 ... HANDLE_KINDS - 1] = TABLE_INIT }, CU_STREAM_PER_THREAD };

struct handle *handle_new(size_t bytes, uint64_t parent)
{
	struct handle *h = calloc(1, bytes);

	if (h) {
		h->context = context_owner();
		h->parent = parent;
		h->id = __atomic_add_fetch(&state.last_id, 1, __ATOMIC_RELAXED);
	}
	return h;
}

static void release(void *record)
{
	struct handle *h = record;

	if (!h)
		return;
	if (h->release)
		h->release(h);
	else
		free(h);
}

CUresult handle_enter(enum handle_kind kind, uint64_t number, struct handle *h)
{
	/*
	 * 0 and the numbers of the default streams are no handles: such an answer makes no sense.
	 */
	if (!h || number <= CU_STREAM_PER_THREAD) {
		release(h);
		return h ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (table_put(&state.tables[kind], number, h))
		return CUDA_SUCCESS;
	release(h);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult handle_add(enum handle_kind kind, uint64_t number, unsigned flags, int priority)
{
	struct handle *h = handle_new(sizeof(*h), 0);

	if (h) {
		h->flags = flags;
		h->priority = priority;
	}
	return handle_enter(kind, number, h);
}

struct handle *handle_find(enum handle_kind kind, const void *number)
{
	return table_find(&state.tables[kind], number_of(number));
}

void handle_forget(enum handle_kind kind, const void *number)
{
	release(table_take(&state.tables[kind], number_of(number)));
}

static bool has_parent(void *record, void *parent)
{
	return ((struct handle *)record)->parent == *(uint64_t *)parent;
}

void handle_forget_children(enum handle_kind kind, uint64_t parent)
{
	table_purge(&state.tables[kind], has_parent, &parent, release);
}

static bool in_context(void *record, void *context)
{
	return ((struct handle *)record)->context == context;
}

void handle_forget_context(struct context *c)
{
	static const enum handle_kind kinds[] = { HANDLE_STREAM, HANDLE_EVENT, HANDLE_MODULE,
						  HANDLE_FUNC, HANDLE_TEXREF };

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		table_purge(&state.tables[kinds[i]], in_context, c, release);
}
