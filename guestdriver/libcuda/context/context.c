/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "context/context.h"

#include <stdlib.h>

#include "context/handle.h"
#include "devices/device.h"
#include "transport/channel.h"

pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * Contexts are listed under context_lock. Readers of the list take no lock, as no context is ever
 * freed.
 */
static struct {
	struct context *all;
	uint64_t last_id;
	pthread_mutex_t making; /* guards `primaries`; context_lock is taken under it */
	struct context *primaries[DEVICES_MAX];
	const struct context_hooks *hooks; /* written by the start alone */
} state = { .making = PTHREAD_MUTEX_INITIALIZER };

bool context_alive(const struct context *c)
{
	return __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE) != 0;
}

CUresult context_check(void)
{
	struct context *c = context_current();

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* In a context that a kernel has killed everything returns this error. */
	return context_alive(c) ? channel_dead() : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool context_known(const struct context *c)
{
	for (struct context *x = __atomic_load_n(&state.all, __ATOMIC_ACQUIRE); x; x = x->next)
		if (x == c)
			return true;
	return false;
}

struct context *context_of_base(const struct context *base)
{
	for (struct context *x = __atomic_load_n(&state.all, __ATOMIC_ACQUIRE); x; x = x->next)
		if (x->base == base && context_alive(x))
			return x;
	return NULL;
}

struct context *context_new(int device, bool primary)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->device = device;
	c->primary = primary;
	pthread_mutex_lock(&context_lock);
	c->id = ++state.last_id;
	c->next = state.all;
	__atomic_store_n(&state.all, c, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&context_lock);
	return c;
}

struct context *context_primary(int device)
{
	struct context *c;

	pthread_mutex_lock(&state.making);
	c = state.primaries[device];
	if (!c)
		c = state.primaries[device] = context_new(device, true);
	pthread_mutex_unlock(&state.making);
	return c;
}

CUresult context_push(struct context *c)
{
	struct thread *t = thread_self();

	if (t->depth == t->room) {
		unsigned room = t->room ? 2 * t->room : 8;
		struct context **stack = realloc(t->stack, room * sizeof(*stack));

		if (!stack)
			return CUDA_ERROR_OUT_OF_MEMORY;
		t->stack = stack;
		t->room = room;
	}
	t->stack[t->depth++] = c;
	return CUDA_SUCCESS;
}

CUresult context_set(struct context *c)
{
	struct thread *t = thread_peek();

	if (!c) {
		if (t->depth)
			t->depth--;
		return CUDA_SUCCESS;
	}
	if (!t->depth)
		return context_push(c);
	t->stack[t->depth - 1] = c;
	return CUDA_SUCCESS;
}

void context_set_hooks(const struct context_hooks *h)
{
	state.hooks = h;
}

uint64_t context_retire(struct context *c)
{
	uint64_t handle;

	state.hooks->ending(c);
	handle = __atomic_exchange_n(&c->handle, 0, __ATOMIC_ACQ_REL);
	state.hooks->ended(c);
	return handle;
}

CUresult context_resolve(CUcontext ctx, struct context **c)
{
	*c = ctx ? ctx : context_current();
	if (!*c || !context_known(*c))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_alive(*c) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
