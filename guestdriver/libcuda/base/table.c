/* SPDX-License-Identifier: Apache-2.0 */
#include "base/table.h"

#include <stdlib.h>

struct row {
	uint64_t key; /* set once */
	void *value; /* NULL: removed */
};

/*
 * Open addressing. Full rows are replaced by larger ones, and kept for readers that may still be in
 * them.
 */
struct table_rows {
	struct table_rows *older;
	uint64_t mask;
	uint64_t used;
	struct row row[];
};

static uint64_t hash(uint64_t key)
{
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15u;
	return key ^ key >> 29;
}

/* The row of key, or the empty one where it belongs. */
static struct row *row_of(struct table_rows *rows, uint64_t key)
{
	for (uint64_t i = hash(key);; i++) {
		struct row *r = &rows->row[i & rows->mask];
		uint64_t k = __atomic_load_n(&r->key, __ATOMIC_ACQUIRE);

		if (!k || k == key)
			return r;
	}
}

void *table_find(struct table *t, uint64_t key)
{
	struct table_rows *rows = __atomic_load_n(&t->rows, __ATOMIC_ACQUIRE);
	struct row *r;

	if (!rows || !key)
		return NULL;
	r = row_of(rows, key);
	return __atomic_load_n(&r->key, __ATOMIC_RELAXED) == key ?
		       __atomic_load_n(&r->value, __ATOMIC_ACQUIRE) :
		       NULL;
}

static void set(struct table_rows *rows, uint64_t key, void *value)
{
	struct row *r = row_of(rows, key);

	__atomic_store_n(&r->value, value, __ATOMIC_RELEASE);
	if (!r->key) {
		rows->used++;
		__atomic_store_n(&r->key, key, __ATOMIC_RELEASE);
	}
}

/* Makes room for one more entry. */
static bool grow(struct table *t)
{
	struct table_rows *old = t->rows, *fresh;
	uint64_t live = 0, size = 64;

	if (old && old->used < (old->mask + 1) / 2)
		return true;
	for (uint64_t i = 0; old && i <= old->mask; i++)
		live += old->row[i].value != NULL;
	while (size < 4 * (live + 1))
		size *= 2;
	fresh = calloc(1, sizeof(*fresh) + size * sizeof(struct row));
	if (!fresh)
		return false;
	fresh->mask = size - 1;
	fresh->older = old;
	for (uint64_t i = 0; old && i <= old->mask; i++)
		if (old->row[i].value)
			set(fresh, old->row[i].key, old->row[i].value);
	__atomic_store_n(&t->rows, fresh, __ATOMIC_RELEASE);
	return true;
}

bool table_put(struct table *t, uint64_t key, void *value)
{
	bool ok;

	if (!key)
		return false;
	pthread_mutex_lock(&t->lock);
	ok = grow(t);
	if (ok)
		set(t->rows, key, value);
	pthread_mutex_unlock(&t->lock);
	return ok;
}

void *table_take(struct table *t, uint64_t key)
{
	void *value = NULL;

	if (!key)
		return NULL;
	pthread_mutex_lock(&t->lock);
	if (t->rows) {
		struct row *r = row_of(t->rows, key);

		if (r->key == key)
			value = __atomic_exchange_n(&r->value, NULL, __ATOMIC_ACQ_REL);
	}
	pthread_mutex_unlock(&t->lock);
	return value;
}

void table_purge(struct table *t, bool (*match)(void *value, void *arg), void *arg,
		 void (*release)(void *value))
{
	pthread_mutex_lock(&t->lock);
	for (uint64_t i = 0; t->rows && i <= t->rows->mask; i++) {
		struct row *r = &t->rows->row[i];
		void *value = r->value;

		if (!value || !match(value, arg))
			continue;
		__atomic_store_n(&r->value, NULL, __ATOMIC_RELEASE);
		if (release)
			release(value);
	}
	pthread_mutex_unlock(&t->lock);
}
