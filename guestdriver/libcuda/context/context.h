/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts as the guest sees them: a CUcontext is the address of a struct context, which is never
 * freed, so that a primary context keeps its handle across a reset, and a stale handle is told from
 * a good one.
 */
#ifndef PARACUDA_CONTEXT_H
#define PARACUDA_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>

#include "base/state.h"
#include "transport/request.h"

struct cls_entry;

/* How threads wait: a part of a context's flags (CUctx_flags). */
#define CTX_SCHED_MASK 7u
#define CTX_SCHED_BLOCKING_SYNC 4u

struct context {
	struct context *next;
	uint64_t handle; /* the worker's, 0 when the context doesn't exist there */
	uint64_t id;
	int device; /* guest's ordinal */
	struct context *base; /* of a green context: the primary one that it is part of */
	CUgreenCtx green;
	bool primary;
	unsigned flags;
	unsigned references; /* of a primary context; of another one those of cuCtxAttach */
	int priority[2]; /* of the legacy stream and the per-thread one */
	struct cls_entry *storage;
};

/* Guards the fields of contexts that change. */
extern pthread_mutex_t context_lock;

/* The calling thread's current context, or NULL. */
static inline struct context *context_current(void)
{
	const struct thread *t = thread_peek();

	return t->depth ? t->stack[t->depth - 1] : NULL;
}

/* Whether threads that wait in a context are to sleep rather than poll. */
static inline bool context_sleeps(const struct context *c)
{
	return (__atomic_load_n(&c->flags, __ATOMIC_RELAXED) & CTX_SCHED_MASK) ==
	       CTX_SCHED_BLOCKING_SYNC;
}

/*
 * An empty request in the calling thread's current context. It is inline so that the compiler knows
 * that the request is empty: the words that are put in it next then need no check.
 */
static inline void request_init(struct request *r, unsigned op)
{
	const struct context *c = context_current();

	request_begin(r, op, c ? __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE) : 0,
		      c && context_sleeps(c));
}

/*
 * The context that owns what is made in c. For a green context that is the primary one, except for
 * streams, which are its own.
 */
static inline struct context *context_home(struct context *c)
{
	return c && c->base ? c->base : c;
}

/* The owner of what is made in the current context. */
static inline struct context *context_owner(void)
{
	return context_home(context_current());
}

/* ENTER, and the caller must have a current context that lives and is not in error. */
#define ENTER_CONTEXT()                           \
	do {                                      \
		CUresult state_ = state_check();  \
		if (!state_)                      \
			state_ = context_check(); \
		if (state_)                       \
			return state_;            \
	} while (0)

CUresult context_check(void);

/* A green context of a primary one that exists, or NULL. */
struct context *context_of_base(const struct context *base);

/* Whether c is a context that this library gave out (it may have been destroyed since). */
bool context_known(const struct context *c);

/* Whether c exists. */
bool context_alive(const struct context *c);

/* The context that a function names: NULL stands for the current one. An error unless it exists. */
CUresult context_resolve(CUcontext ctx, struct context **c);

/* Makes a context and lists it. */
struct context *context_new(int device, bool primary);

/* The primary context of a device, made on first use; it need not be active. */
struct context *context_primary(int device);

/* Pushes on the calling thread's stack. */
CUresult context_push(struct context *c);

/* Replaces the top of the calling thread's stack, with NULL removes it. */
CUresult context_set(struct context *c);

/* What else ends with a context (exports/hooks.c). */
struct context_hooks {
	void (*ending)(
		struct context *c); /* it still exists, unless it is a primary one that didn't */
	void (*ended)(struct context *c);
};

/* Once, before there is a context. */
void context_set_hooks(const struct context_hooks *h);

/* Forgets the context on the worker's side, and all that ends with it, and clears its handle. */
uint64_t context_retire(struct context *c);

/*
 * Context-local storage: values that runtime libraries keep with a context (export table c693336e).
 */
CUresult storage_put(CUcontext ctx, void *key, void *value,
		     void (*destroy)(CUcontext, void *, void *));
CUresult storage_delete(CUcontext ctx, void *key);
CUresult storage_get(void **value, CUcontext ctx, void *key);
void storage_destroy(struct context *c);

/* Whether flags are known, with one way to wait at most. */
bool context_flags_valid(unsigned flags);

#endif
