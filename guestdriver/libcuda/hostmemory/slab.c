/* SPDX-License-Identifier: Apache-2.0 */
#include "hostmemory/slab.h"

#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "hostmemory/host_memory.h"

#define SLAB_BYTES ((uint64_t)2 << 20)
#define SMALL_MOST ((uint64_t)256 << 10)
#define PAGE_LEAST 4096
#define WORDS (SLAB_BYTES / PAGE_LEAST / 64)

/* The first small allocations, so many, have pages of their own. */
#define ALONE 32

/* Which pages are taken, and which of these only because work may still use them. */
struct slab {
	struct slab *next;
	struct memory memory; /* as if it were one allocation; the memory map doesn't have it */
	uint64_t taken[WORDS], resting[WORDS];
	bool rests, closed;
	unsigned allocations;
};

static struct {
	pthread_mutex_t lock; /* guards the slabs and what is in them */
	struct slab *slabs;
	unsigned small; /* how many small allocations there are; written atomically */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A library's variables belong to no context, and are pinned in the current one. */
static bool is_small(const struct memory *m)
{
	return m->kind != MEMORY_REGISTERED && m->context && m->bytes <= SMALL_MOST;
}

bool slab_wanted(const struct memory *m)
{
	return is_small(m) && __atomic_fetch_add(&state.small, 1, __ATOMIC_RELAXED) >= ALONE;
}

void slab_uncount(const struct memory *m)
{
	if (is_small(m))
		__atomic_fetch_sub(&state.small, 1, __ATOMIC_RELAXED);
}

static bool has(const uint64_t *bits, unsigned page)
{
	return bits[page / 64] >> page % 64 & 1;
}

static void set(uint64_t *bits, unsigned page, unsigned pages)
{
	for (unsigned i = page; i < page + pages; i++)
		bits[i / 64] |= 1ull << i % 64;
}

static void clear(uint64_t *bits, unsigned page, unsigned pages)
{
	for (unsigned i = page; i < page + pages; i++)
		bits[i / 64] &= ~(1ull << i % 64);
}

static void free_pages(struct slab *s, unsigned page, unsigned pages)
{
	memset((uint8_t *)(uintptr_t)s->memory.base + page * page_bytes(), 0, pages * page_bytes());
	clear(s->taken, page, pages);
}

/* Frees the resting pages, if the work that may use them can be waited for. */
static void wake(struct slab *s)
{
	bool waited;

	if (!s->rests || host_memory_settle(&s->memory, &waited) || !waited)
		return;
	for (unsigned i = 0; i < SLAB_BYTES / page_bytes(); i++)
		if (has(s->resting, i))
			free_pages(s, i, 1);
	memset(s->resting, 0, sizeof(s->resting));
	s->rests = false;
}

/* The first of so many free pages in a row; the slab's number of pages if there are none. */
static unsigned find_room(const struct slab *s, unsigned pages)
{
	unsigned all = SLAB_BYTES / page_bytes(), free = 0;

	for (unsigned i = 0; i < all; i++) {
		free = has(s->taken, i) ? 0 : free + 1;
		if (free == pages)
			return i + 1 - pages;
	}
	return all;
}

/* A slab for such memory that has room for it, at *page; NULL if there is none. */
static struct slab *find_slab(const struct memory *m, unsigned pages, unsigned *page)
{
	for (struct slab *s = state.slabs; s; s = s->next) {
		if (s->closed || s->memory.kind != m->kind || s->memory.context != m->context)
			continue;
		wake(s);
		*page = find_room(s, pages);
		if (*page < SLAB_BYTES / page_bytes())
			return s;
	}
	return NULL;
}

static CUresult make_slab(const struct memory *like, struct slab **made, unsigned *page)
{
	struct slab *s = calloc(1, sizeof(*s));
	CUresult result;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->memory = *like;
	s->memory.bytes = SLAB_BYTES;
	result = host_memory_make_alone(&s->memory);
	if (result) {
		free(s);
		return result;
	}
	s->next = state.slabs;
	*made = state.slabs = s;
	*page = 0;
	return CUDA_SUCCESS;
}

/* Takes a slab without allocations out of the list, and unregisters its memory. */
static CUresult end_slab(struct slab *s)
{
	struct slab **at = &state.slabs;
	CUresult result;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	result = host_memory_end_alone(&s->memory);
	free(s);
	return result;
}

/* The part of a slab's registrations that is m's. */
static CUresult register_within(struct memory *m, const struct memory *whole)
{
	uint64_t end = m->base + m->pinned_bytes;

	m->registrations = calloc(whole->registrations_count, sizeof(*m->registrations));
	m->registrations_count = 0;
	if (!m->registrations)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < whole->registrations_count; i++) {
		const struct registration *g = &whole->registrations[i];
		uint64_t from = g->base > m->base ? g->base : m->base;
		uint64_t to = g->base + g->bytes < end ? g->base + g->bytes : end;

		if (from < to)
			m->registrations[m->registrations_count++] =
				(struct registration){ from, to - from,
						       g->offset + (from - g->base), g->map };
	}
	return CUDA_SUCCESS;
}

static CUresult take(struct memory *m, unsigned pages)
{
	unsigned page;
	struct slab *s = find_slab(m, pages, &page);
	CUresult result = s ? CUDA_SUCCESS : make_slab(m, &s, &page);

	if (result)
		return result;
	m->base = m->pinned_base = s->memory.base + page * page_bytes();
	m->pinned_bytes = pages * page_bytes();
	result = register_within(m, &s->memory);
	if (result) {
		if (!s->allocations)
			end_slab(s);
		return result;
	}
	set(s->taken, page, pages);
	s->allocations++;
	m->slab = s;
	return CUDA_SUCCESS;
}

CUresult slab_take(struct memory *m)
{
	CUresult result;

	pthread_mutex_lock(&state.lock);
	result = take(m, page_end(m->bytes) / page_bytes());
	pthread_mutex_unlock(&state.lock);
	return result;
}

/*
 * Keeps pages that work may still use. If it is another context's work, nobody can say later
 * whether it is over: they stay.
 */
static void rest(struct slab *s, unsigned page, unsigned pages)
{
	if (context_current() != s->memory.context)
		return;
	set(s->resting, page, pages);
	s->rests = true;
}

CUresult slab_give(struct memory *m, bool waited)
{
	struct slab *s = m->slab;
	unsigned page = (m->base - s->memory.base) / page_bytes(),
		 pages = m->pinned_bytes / page_bytes();
	CUresult result = CUDA_SUCCESS;

	free(m->registrations);
	m->registrations = NULL;
	m->registrations_count = 0;
	pthread_mutex_lock(&state.lock);
	if (!--s->allocations)
		result = end_slab(s);
	else if (waited)
		free_pages(s, page, pages);
	else
		rest(s, page, pages);
	pthread_mutex_unlock(&state.lock);
	return result;
}

void slab_close(const struct context *c)
{
	pthread_mutex_lock(&state.lock);
	for (struct slab *s = state.slabs; s; s = s->next)
		if (s->memory.context == c)
			s->closed = true;
	pthread_mutex_unlock(&state.lock);
}
