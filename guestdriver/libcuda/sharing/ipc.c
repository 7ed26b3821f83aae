/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory between processes. A handle names what the worker of the process that made it
 * offers.
 */
#define _GNU_SOURCE
#include "sharing/ipc.h"

#include <stdlib.h>
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"

#define MAGIC 0x314350495643u

/* What is in a CUipcMemHandle. */
struct content {
	uint64_t magic;
	struct answer_cuIpcGetMemHandle memory;
	uint64_t bytes; /* of the allocation */
	uint64_t reserved;
};
_Static_assert(sizeof(struct content) == sizeof(CUipcMemHandle), "CUipcMemHandle");

/* Memory of another process that is mapped here. */
struct opened {
	struct opened *next;
	struct content content;
	uint64_t address, whole;
	struct context *context;
	unsigned references;
};

static struct {
	pthread_mutex_t lock; /* guards the list, and is held while memory is opened and closed */
	struct opened *list;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct content c = { .magic = MAGIC };
	struct memory m;
	CUresult result;

	ENTER_CONTEXT();
	if (!pHandle || !memory_find(dptr, &m) || m.kind != MEMORY_DEVICE || m.pool)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuIpcGetMemHandle(m.base, &c.memory);
	c.bytes = m.bytes;
	if (!result)
		memcpy(pHandle, &c, sizeof(c));
	return result;
}

static CUresult enter(const struct opened *o)
{
	struct memory m = {
		.base = o->address,
		.bytes = o->content.bytes,
		.kind = MEMORY_SHARED,
		.device = o->context->device,
		.context = o->context,
	};

	if (!m.base || m.base + m.bytes < m.base)
		return CUDA_ERROR_UNKNOWN;
	return memory_enter(&m) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult close_whole(uint64_t whole)
{
	return channel_synced(call_cuIpcCloseMemHandle(whole));
}

static CUresult map(struct opened *o)
{
	struct args_cuIpcOpenMemHandle_v2 args = {
		.start = o->content.memory.start,
		.bytes = o->content.memory.bytes,
		.offset = o->content.memory.offset,
	};
	CUresult result;

	memcpy(args.name, o->content.memory.name, sizeof(args.name));
	result = call_cuIpcOpenMemHandle_v2(&args, &o->address, &o->whole);
	if (result)
		return result;
	result = enter(o);
	if (result)
		close_whole(o->whole);
	return result;
}

static CUresult open_handle(CUdeviceptr *address, const struct content *c)
{
	struct opened *o;
	CUresult result;

	for (o = state.list; o; o = o->next)
		if (o->context == context_owner() && !memcmp(&o->content, c, sizeof(*c)))
			break;
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return CUDA_ERROR_OUT_OF_MEMORY;
		o->content = *c;
		o->context = context_owner();
		result = map(o);
		if (result) {
			free(o);
			return result;
		}
		o->next = state.list;
		state.list = o;
	}
	o->references++;
	*address = o->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct content c;
	CUresult result;

	ENTER_CONTEXT();
	memcpy(&c, &handle, sizeof(c));
	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || c.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	result = open_handle(pdptr, &c);
	pthread_mutex_unlock(&state.lock);
	return result;
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct opened **p, *o;
	struct memory m;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	ENTER_CONTEXT();
	pthread_mutex_lock(&state.lock);
	for (p = &state.list; *p && (*p)->address != dptr;)
		p = &(*p)->next;
	o = *p;
	if (o) {
		result = CUDA_SUCCESS;
		if (!--o->references) {
			memory_take(o->address, MEMORY_SHARED, &m);
			result = close_whole(o->whole);
			*p = o->next;
			free(o);
		}
	}
	pthread_mutex_unlock(&state.lock);
	return result;
}

void ipc_forget_context(const struct context *c)
{
	pthread_mutex_lock(&state.lock);
	for (struct opened **p = &state.list; *p;) {
		struct opened *o = *p;

		if (o->context != c) {
			p = &o->next;
			continue;
		}
		*p = o->next;
		free(o);
	}
	pthread_mutex_unlock(&state.lock);
}
