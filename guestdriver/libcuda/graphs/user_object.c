/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: things of the program that graphs refer to. They live here; the host doesn't know
 * of them.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "graphs/graph.h"

struct user_object {
	uint64_t references;
	CUhostFn destroy;
	void *data;
};

/* The references that a graph, or an executable graph, has to an object. */
struct reference {
	struct reference *next;
	uint64_t owner;
	struct user_object *object;
	uint64_t count;
};

/* The lock guards the objects' counts, too. */
static struct {
	pthread_mutex_t lock;
	struct reference *references;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *destroy(void *object)
{
	struct user_object *o = object;

	o->destroy(o->data);
	free(o);
	return NULL;
}

/* Destructors run on a thread of their own: they may take locks that the caller holds. */
static void drop(struct user_object *o, uint64_t count)
{
	pthread_t thread;

	o->references -= count;
	if (o->references)
		return;
	if (pthread_create(&thread, NULL, destroy, o) == 0)
		pthread_detach(thread);
}

EXPORT CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy_function,
				   unsigned int initialRefcount, unsigned int flags)
{
	struct user_object *o;

	ENTER();
	/* Any count but 0 will do here, as with driver 580. */
	if (!object_out || !destroy_function || !initialRefcount ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	o = calloc(1, sizeof(*o));
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*o = (struct user_object){ initialRefcount, destroy_function, ptr };
	*object_out = o;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	ENTER();
	if (!object || !count || count > INT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	object->references += count;
	pthread_mutex_unlock(&state.lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	CUresult result = CUDA_SUCCESS;

	ENTER();
	if (!object || !count || count > INT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	if (count > object->references)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		drop(object, count);
	pthread_mutex_unlock(&state.lock);
	return result;
}

static struct reference **find(uint64_t owner, const struct user_object *object)
{
	struct reference **r = &state.references;

	while (*r && ((*r)->owner != owner || (*r)->object != object))
		r = &(*r)->next;
	return r;
}

static bool refer(uint64_t owner, struct user_object *object, uint64_t count)
{
	struct reference *r = *find(owner, object);

	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return false;
		*r = (struct reference){ state.references, owner, object, 0 };
		state.references = r;
	}
	r->count += count;
	return true;
}

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
					unsigned int flags)
{
	bool known;

	ENTER();
	if (!graph || !object || !count || count > INT_MAX || flags & ~CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	known = refer(number_of(graph), object, count);
	if (known && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
		object->references += count;
	pthread_mutex_unlock(&state.lock);
	return known ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void release(struct reference **at, uint64_t count)
{
	struct reference *r = *at;

	r->count -= count;
	drop(r->object, count);
	if (!r->count) {
		*at = r->next;
		free(r);
	}
}

EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct reference **r;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	ENTER();
	if (!graph || !object || !count)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	r = find(number_of(graph), object);
	if (*r && (*r)->count >= count) {
		release(r, count);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&state.lock);
	return result;
}

struct reference *user_objects_take(uint64_t owner)
{
	struct reference *taken = NULL;

	pthread_mutex_lock(&state.lock);
	for (struct reference **at = &state.references; *at;) {
		struct reference *r = *at;

		if (r->owner != owner) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = taken;
		taken = r;
	}
	pthread_mutex_unlock(&state.lock);
	return taken;
}

void user_objects_release(struct reference *taken)
{
	pthread_mutex_lock(&state.lock);
	while (taken)
		release(&taken, taken->count);
	pthread_mutex_unlock(&state.lock);
}

bool user_objects_inherit(uint64_t owner, uint64_t from)
{
	bool any = false;

	pthread_mutex_lock(&state.lock);
	for (struct reference *r = state.references; r; r = r->next) {
		if (r->owner != from)
			continue;
		any = true;
		if (refer(owner, r->object, r->count))
			r->object->references += r->count;
	}
	pthread_mutex_unlock(&state.lock);
	return any;
}
