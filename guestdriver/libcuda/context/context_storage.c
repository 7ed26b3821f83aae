/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "context/context.h"

struct cls_entry {
	struct cls_entry *next;
	void *key;
	void *value;
	void (*destroy)(CUcontext, void *, void *);
};

/* NULL and -1 stand for the current context. */
static struct context *resolve(CUcontext ctx)
{
	if (!ctx || ctx == (CUcontext)(intptr_t)-1)
		return context_current();
	return context_known(ctx) ? ctx : NULL;
}

static struct cls_entry **find(struct context *c, void *key)
{
	struct cls_entry **e = &c->storage;

	while (*e && (*e)->key != key)
		e = &(*e)->next;
	return e;
}

CUresult storage_put(CUcontext ctx, void *key, void *value,
		     void (*destroy)(CUcontext, void *, void *))
{
	struct context *c = resolve(ctx);
	struct cls_entry *fresh, **e;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&context_lock);
	e = find(c, key);
	if (*e) {
		free(fresh);
	} else {
		fresh->key = key;
		*e = fresh;
	}
	(*e)->value = value;
	(*e)->destroy = destroy;
	pthread_mutex_unlock(&context_lock);
	return CUDA_SUCCESS;
}

CUresult storage_delete(CUcontext ctx, void *key)
{
	struct context *c = resolve(ctx);
	struct cls_entry **e, *gone;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&context_lock);
	e = find(c, key);
	gone = *e;
	if (gone)
		*e = gone->next;
	pthread_mutex_unlock(&context_lock);
	free(gone);
	return gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult storage_get(void **value, CUcontext ctx, void *key)
{
	struct context *c = resolve(ctx);
	struct cls_entry *e;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&context_lock);
	e = *find(c, key);
	if (e && value)
		*value = e->value;
	pthread_mutex_unlock(&context_lock);
	return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void storage_destroy(struct context *c)
{
	for (;;) {
		struct cls_entry *e;

		pthread_mutex_lock(&context_lock);
		e = c->storage;
		if (e)
			c->storage = e->next;
		pthread_mutex_unlock(&context_lock);
		if (!e)
			return;
		if (e->destroy)
			e->destroy(c, e->key, e->value);
		free(e);
	}
}
