/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "hostmemory/advice.h"

#include <stdlib.h>

#include "addresses/memory_map.h"
#include "base/page.h"

/* A range of pages with the same advice. */
struct span {
	struct span *next;
	uint64_t base, end;
	struct advice advice;
};

static struct {
	pthread_mutex_t lock;
	struct span *spans; /* by address; what isn't there has no advice */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool same_place(const CUmemLocation *a, const CUmemLocation *b)
{
	return a->type == b->type && a->id == b->id;
}

static bool same_advice(const struct advice *a, const struct advice *b)
{
	return same_place(&a->preferred, &b->preferred) &&
	       same_place(&a->prefetched, &b->prefetched) && a->accessed_by == b->accessed_by &&
	       a->accessed_by_host == b->accessed_by_host && a->read_mostly == b->read_mostly;
}

static struct span *insert(struct span **at, uint64_t base, uint64_t end,
			   const struct advice *advice)
{
	struct span *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->base = base;
	s->end = end;
	if (advice)
		s->advice = *advice;
	s->next = *at;
	return *at = s;
}

/*
 * Makes spans begin and end at base and end, and covers what lies between. Returns where they
 * begin, NULL without memory.
 */
static struct span **cut_out(uint64_t base, uint64_t end)
{
	struct span **first = &state.spans, **p;

	while (*first && (*first)->end <= base)
		first = &(*first)->next;
	if (*first && (*first)->base < base) {
		if (!insert(&(*first)->next, base, (*first)->end, &(*first)->advice))
			return NULL;
		(*first)->end = base;
		first = &(*first)->next;
	}
	p = first;
	for (uint64_t at = base; at < end; p = &(*p)->next) {
		struct span *s = *p;

		if (!s || s->base > at) {
			uint64_t to = s && s->base < end ? s->base : end;

			if (!insert(p, at, to, NULL))
				return NULL;
		} else if (s->end > end) {
			if (!insert(&s->next, end, s->end, &s->advice))
				return NULL;
			s->end = end;
		}
		at = (*p)->end;
	}
	return first;
}

/*
 * Joins neighbouring spans with the same advice, if they are of one allocation: others may lie next
 * to it.
 */
static void join_equal(const struct memory *m)
{
	for (struct span *s = state.spans; s && s->next;) {
		struct span *next = s->next;

		if (s->base >= m->base && s->end == next->base && next->base - m->base < m->bytes &&
		    same_advice(&s->advice, &next->advice)) {
			s->end = next->end;
			s->next = next->next;
			free(next);
		} else {
			s = next;
		}
	}
}

CUresult advice_change(const struct memory *m, uint64_t base, uint64_t end,
		       void (*change)(struct advice *a, CUmemLocation l), CUmemLocation location)
{
	struct span **first;

	pthread_mutex_lock(&state.lock);
	first = cut_out(base, end);
	for (struct span *s = first ? *first : NULL; s && s->base < end; s = s->next)
		change(&s->advice, location);
	join_equal(m);
	pthread_mutex_unlock(&state.lock);
	return first ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void advice_forget(uint64_t base, uint64_t bytes)
{
	uint64_t end = page_end(base + bytes);

	pthread_mutex_lock(&state.lock);
	/* Spans never reach beyond an allocation. */
	for (struct span **p = &state.spans; *p && (*p)->base < end;) {
		struct span *s = *p;

		if (s->base >= base) {
			*p = s->next;
			free(s);
		} else {
			p = &s->next;
		}
	}
	pthread_mutex_unlock(&state.lock);
}

struct advice advice_common(uint64_t base, uint64_t end)
{
	static const struct advice none;
	struct advice all = none;
	uint64_t at = base;
	bool first = true;

	pthread_mutex_lock(&state.lock);
	for (const struct span *s = state.spans; s && s->base < end; s = s->next) {
		if (s->end <= base)
			continue;
		if (s->base > at)
			break;
		if (first)
			all = s->advice;
		if (!same_place(&all.preferred, &s->advice.preferred))
			all.preferred = none.preferred;
		if (!same_place(&all.prefetched, &s->advice.prefetched))
			all.prefetched = none.prefetched;
		all.accessed_by &= s->advice.accessed_by;
		all.accessed_by_host = all.accessed_by_host && s->advice.accessed_by_host;
		all.read_mostly = all.read_mostly && s->advice.read_mostly;
		first = false;
		at = s->end;
	}
	pthread_mutex_unlock(&state.lock);
	return at < end ? none : all;
}
