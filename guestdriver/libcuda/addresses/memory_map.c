/* SPDX-License-Identifier: Apache-2.0 */
#include "addresses/memory_map.h"

#include <stdlib.h>

#include "devices/device.h"

/* A treap ordered by base. Ranges don't overlap. */
struct node {
	struct node *left, *right;
	uint32_t priority;
	struct memory memory;
};

/* Whoever allocates or frees memory writes it, under the lock. */
static struct {
	pthread_rwlock_t lock;
	struct node *root;
	uint32_t seed; /* of the nodes' priorities */
	uint64_t last_id;
} state = { .lock = PTHREAD_RWLOCK_INITIALIZER, .seed = 2463534242u };

static uint32_t random_priority(void)
{
	state.seed ^= state.seed << 13;
	state.seed ^= state.seed >> 17;
	state.seed ^= state.seed << 5;
	return state.seed;
}

/* Cuts t into the nodes that begin below `base` and the others. */
static void split(struct node *t, uint64_t base, struct node **below, struct node **rest)
{
	if (!t) {
		*below = *rest = NULL;
	} else if (t->memory.base < base) {
		*below = t;
		split(t->right, base, &t->right, rest);
	} else {
		*rest = t;
		split(t->left, base, below, &t->left);
	}
}

static struct node *join(struct node *below, struct node *rest)
{
	if (!below)
		return rest;
	if (!rest)
		return below;
	if (below->priority > rest->priority) {
		below->right = join(below->right, rest);
		return below;
	}
	rest->left = join(below, rest->left);
	return rest;
}

/* The last node that begins at or below the address. */
static struct node *at_or_below(uint64_t address)
{
	struct node *found = NULL;

	for (struct node *t = state.root; t;) {
		if (t->memory.base <= address) {
			found = t;
			t = t->right;
		} else {
			t = t->left;
		}
	}
	return found;
}

/* The node that touches [address, address + bytes), if any. */
static struct node *touching(uint64_t address, uint64_t bytes)
{
	struct node *n = at_or_below(address + (bytes ? bytes - 1 : 0));

	return n && address - n->memory.base < n->memory.bytes ? n :
	       n && n->memory.base >= address		       ? n :
								 NULL;
}

static void cut(struct node *n)
{
	struct node *below, *rest, *middle;

	split(state.root, n->memory.base, &below, &rest);
	split(rest, n->memory.base + 1, &middle, &rest);
	state.root = join(below, rest);
}

bool memory_find(uint64_t address, struct memory *m)
{
	struct node *n;

	pthread_rwlock_rdlock(&state.lock);
	n = at_or_below(address);
	if (n && address - n->memory.base >= n->memory.bytes)
		n = NULL;
	if (n)
		*m = n->memory;
	pthread_rwlock_unlock(&state.lock);
	return n != NULL;
}

void memory_sync(uint64_t address, bool synced)
{
	struct node *n;

	pthread_rwlock_wrlock(&state.lock);
	n = at_or_below(address);
	if (n && address - n->memory.base < n->memory.bytes)
		n->memory.unsynced = synced != (n->memory.kind == MEMORY_MANAGED);
	pthread_rwlock_unlock(&state.lock);
}

bool memory_touching(uint64_t address, uint64_t bytes, struct memory *m)
{
	struct node *n;

	pthread_rwlock_rdlock(&state.lock);
	n = touching(address, bytes);
	if (n)
		*m = n->memory;
	pthread_rwlock_unlock(&state.lock);
	return n != NULL;
}

bool memory_overlaps(uint64_t address, uint64_t bytes)
{
	struct memory m;

	return memory_touching(address, bytes, &m);
}

bool memory_enter(const struct memory *m)
{
	struct node *n = calloc(1, sizeof(*n)), *stale, *below, *rest;

	if (!n)
		return false;
	n->memory = *m;
	pthread_rwlock_wrlock(&state.lock);
	n->priority = random_priority();
	n->memory.id = ++state.last_id;
	while ((stale = touching(m->base, m->bytes)) && memory_on_device(&stale->memory)) {
		cut(stale);
		free(stale);
	}
	split(state.root, m->base, &below, &rest);
	state.root = join(join(below, n), rest);
	pthread_rwlock_unlock(&state.lock);
	return true;
}

bool memory_take(uint64_t base, enum memory_kind kind, struct memory *m)
{
	struct node *n;
	bool taken;

	pthread_rwlock_wrlock(&state.lock);
	n = at_or_below(base);
	if (n && (n->memory.base != base || n->memory.kind != kind))
		n = NULL;
	taken = n != NULL;
	if (n)
		*m = n->memory;
	if (n && !m->graph) {
		cut(n);
		free(n);
	}
	pthread_rwlock_unlock(&state.lock);
	return taken;
}

static struct node *pinned_of(struct node *t, const struct context *c)
{
	struct node *found;

	if (!t || (memory_pinned(&t->memory) && t->memory.context == c))
		return t;
	found = pinned_of(t->left, c);
	return found ? found : pinned_of(t->right, c);
}

bool memory_has_pinned(const struct context *c)
{
	bool found;

	pthread_rwlock_rdlock(&state.lock);
	found = pinned_of(state.root, c) != NULL;
	pthread_rwlock_unlock(&state.lock);
	return found;
}

bool memory_take_pinned(const struct context *c, struct memory *m)
{
	struct node *n;

	pthread_rwlock_wrlock(&state.lock);
	n = pinned_of(state.root, c);
	if (n) {
		cut(n);
		*m = n->memory;
	}
	pthread_rwlock_unlock(&state.lock);
	free(n);
	return n != NULL;
}

static void insert(struct node *n)
{
	struct node *below, *rest;

	split(state.root, n->memory.base, &below, &rest);
	state.root = join(join(below, n), rest);
}

void memory_cut(uint64_t base, uint64_t bytes)
{
	struct node *second = calloc(1, sizeof(*second)), *n;
	uint64_t end = base + bytes, last;

	pthread_rwlock_wrlock(&state.lock);
	n = at_or_below(base);
	if (n && n->memory.kind == MEMORY_MAPPED && base - n->memory.base < n->memory.bytes) {
		last = n->memory.base + n->memory.bytes;
		cut(n);
		if (second && last > end) {
			second->memory = n->memory;
			second->memory.base = end;
			second->memory.bytes = last - end;
			second->memory.id = ++state.last_id;
			second->priority = random_priority();
			insert(second);
			second = NULL;
		}
		n->memory.bytes = base - n->memory.base;
		n->left = n->right = NULL;
		if (n->memory.bytes) {
			insert(n);
			n = NULL;
		}
	} else {
		n = NULL;
	}
	pthread_rwlock_unlock(&state.lock);
	free(n);
	free(second);
}

static struct node *without_context(struct node *t, struct context *c)
{
	struct node *rest;

	if (!t)
		return NULL;
	t->left = without_context(t->left, c);
	t->right = without_context(t->right, c);
	if (t->memory.context != c || !memory_on_device(&t->memory))
		return t;
	rest = join(t->left, t->right);
	free(t);
	return rest;
}

void memory_forget_context(struct context *c)
{
	pthread_rwlock_wrlock(&state.lock);
	state.root = without_context(state.root, c);
	pthread_rwlock_unlock(&state.lock);
}

bool memory_in_window(uint64_t address)
{
	return address - devices.window_base < devices.window_bytes;
}
