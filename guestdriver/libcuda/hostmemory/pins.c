/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "hostmemory/pins.h"

#include <stdlib.h>

#include "base/page.h"
#include "context/zz_generated_commands.h"
#include "transport/buffer.h"

/*
 * A registration is at most what fits in one MAP if no two pages are neighbours. Of memory in long
 * runs more fits.
 */
#define REGISTRATION ((uint64_t)PARACUDA_RUNS_PER_MAP * 4096)
#define REGISTRATION_IN_RUNS ((uint64_t)1 << 30)
#define REGISTRATION_LEAST ((uint64_t)1 << 20)

/* The pages of a struct pins that other memory than its owner's may have, too. */
#define FIRST 1u
#define LAST 2u

struct pins {
	uint64_t base, bytes; /* whole pages */
	struct registration *registrations;
	unsigned registrations_count;
	unsigned users;
	bool owned; /* the memory that they were made for exists: all pages are in use */
	unsigned kept; /* FIRST, LAST: still pinned after the worker let go of the rest */
	bool writable;
	struct context *context;
};

/* Appends to a list. */
static bool add_registration(struct registration **list, unsigned *count,
			     const struct registration *g)
{
	struct registration *grown = realloc(*list, (*count + 1) * sizeof(*grown));

	if (!grown)
		return false;
	*list = grown;
	grown[(*count)++] = *g;
	return true;
}

/* Registers pages. With `more` others follow, which the worker registers with them as one range. */
static CUresult register_pages(struct pins *p, uint64_t base, uint64_t bytes, bool more)
{
	struct registration g = { .base = base, .bytes = bytes };
	CUresult result = map_memory((void *)(uintptr_t)base, bytes,
				     p->writable ? PARACUDA_MAP_FLAG_WRITE : 0, &g.map);

	if (result)
		return result;
	result = call_HostRegister(g.map, base, bytes, more);
	if (result) {
		call_UNMAP(g.map);
		return result;
	}
	if (add_registration(&p->registrations, &p->registrations_count, &g))
		return CUDA_SUCCESS;
	call_HostUnregister(g.map);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Sends a request about pins, even in a dead context: the pages must come back. */
static CUresult send_about(struct request *r, const struct pins *p)
{
	r->always = true;
	if (p->context)
		r->context = __atomic_load_n(&p->context->handle, __ATOMIC_ACQUIRE);
	return channel_call(r, NULL, 0);
}

static CUresult unpin(struct pins *p)
{
	CUresult result = CUDA_SUCCESS;

	while (p->registrations_count) {
		struct request r;
		CUresult one;

		request_HostUnregister(&r, p->registrations[--p->registrations_count].map);
		one = send_about(&r, p);
		if (!result)
			result = one;
	}
	free(p->registrations);
	free(p);
	return result;
}

/*
 * They stay the same pages while pinned: if only this process has them, fork() copies them for the
 * child.
 */
static CUresult pin(struct pins *p, uint64_t most)
{
	uint64_t end = p->base + p->bytes;

	for (uint64_t at = p->base; at < end;) {
		uint64_t bytes = end - at < most ? end - at : most;
		CUresult result = register_pages(p, at, bytes, bytes < end - at);

		if (!result)
			at += bytes;
		else if (result == CUDA_ERROR_NOT_READY && most > REGISTRATION_LEAST)
			most /= 2;
		else
			return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : result;
	}
	return CUDA_SUCCESS;
}

static uint64_t last_page(const struct pins *p)
{
	return p->base + p->bytes - page_bytes();
}

static bool has_page(const struct pins *p, uint64_t page)
{
	if (p->owned)
		return page - p->base < p->bytes;
	return (p->kept & FIRST && page == p->base) || (p->kept & LAST && page == last_page(p));
}

/* The pins that hold a page, or NULL. All registered memory on a page has the same pins. */
static struct pins *holder(uint64_t page)
{
	struct memory m;

	if (!memory_touching(page, page_bytes(), &m) || m.kind != MEMORY_REGISTERED)
		return NULL;
	for (unsigned i = 0; i < MEMORY_PINS; i++)
		if (m.pins[i] && has_page(m.pins[i], page))
			return m.pins[i];
	return NULL;
}

/* Lets memory use a page that others have pinned. */
static CUresult share(struct memory *m, struct pins **made, struct pins *p, uint64_t page)
{
	if (!p->writable && !(m->flags & CU_MEMHOSTREGISTER_READ_ONLY))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	for (unsigned i = 0; i < p->registrations_count; i++) {
		const struct registration *g = &p->registrations[i];
		struct registration one = { page, page_bytes(), page - g->base, g->map };

		if (page - g->base >= g->bytes)
			continue;
		if (!add_registration(&m->registrations, &m->registrations_count, &one))
			return CUDA_ERROR_OUT_OF_MEMORY;
		p->users++;
		*made = p;
	}
	return CUDA_SUCCESS;
}

/* Pins the pages [base, end), which no other memory has. */
static CUresult make_own(struct memory *m, uint64_t base, uint64_t end)
{
	bool registered = m->kind == MEMORY_REGISTERED;
	struct pins *p = calloc(1, sizeof(*p));
	CUresult result;

	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = (struct pins){
		.base = base, .bytes = end - base, .users = 1, .owned = true, .context = m->context
	};
	p->writable = !registered || !(m->flags & CU_MEMHOSTREGISTER_READ_ONLY);
	m->pins[0] = p;
	result = pin(p, registered ? REGISTRATION : REGISTRATION_IN_RUNS);
	for (unsigned i = 0; !result && i < p->registrations_count; i++)
		if (!add_registration(&m->registrations, &m->registrations_count,
				      &p->registrations[i]))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	return result;
}

CUresult pins_make(struct memory *m)
{
	uint64_t page = page_bytes(), base = m->pinned_base, end = base + m->pinned_bytes;
	bool registered = m->kind == MEMORY_REGISTERED;
	struct pins *first = registered ? holder(base) : NULL;
	struct pins *last = registered && m->pinned_bytes > page ? holder(end - page) : NULL;
	CUresult result = CUDA_SUCCESS;

	if (first)
		result = share(m, &m->pins[1], first, base);
	if (!result && last)
		result = share(m, &m->pins[2], last, end - page);
	base += first ? page : 0;
	end -= last ? page : 0;
	if (!result && base < end)
		result = make_own(m, base, end);
	if (result)
		pins_end(m);
	return result;
}

/* Whether memory that is still there has a page of pins: then they are of its context. */
static bool in_use(struct pins *p, uint64_t page)
{
	struct memory m;

	if (!memory_touching(page, page_bytes(), &m) || m.kind != MEMORY_REGISTERED)
		return false;
	p->context = m.context;
	return true;
}

/* Which pages are still in use, of pins whose owner has gone. */
static unsigned still_used(struct pins *p)
{
	unsigned candidates = p->owned ? FIRST | LAST : p->kept, kept = 0;

	if (candidates & FIRST && in_use(p, p->base))
		kept |= FIRST;
	if (candidates & LAST && p->bytes > page_bytes() && in_use(p, last_page(p)))
		kept |= LAST;
	return kept;
}

/*
 * Makes the worker forget the pages that nobody uses any more, and register the others in the
 * context of memory that uses them.
 */
static CUresult keep(struct pins *p)
{
	const struct context *before = p->context;
	uint64_t page = page_bytes();
	unsigned kept = still_used(p);
	bool same =
		p->owned ? p->bytes == (kept == (FIRST | LAST) ? 2 * page : page) : kept == p->kept;
	struct request r;

	p->owned = false;
	p->kept = kept;
	if (same && p->context == before)
		return CUDA_SUCCESS;
	request_HostKeep(&r, &(struct args_HostKeep){
				     .map = p->registrations[0].map,
				     .first = p->base,
				     .first_bytes = kept & FIRST ? page : 0,
				     .second = last_page(p),
				     .second_bytes = kept & LAST ? page : 0,
			     });
	return send_about(&r, p);
}

CUresult pins_end(struct memory *m)
{
	CUresult result = CUDA_SUCCESS, one;

	for (unsigned i = 0; i < MEMORY_PINS; i++) {
		struct pins *p = m->pins[i];

		if (!p)
			continue;
		m->pins[i] = NULL;
		one = CUDA_SUCCESS;
		if (!--p->users)
			one = unpin(p);
		else if (i == 0 || !p->owned)
			one = keep(p);
		result = result ? result : one;
	}
	free(m->registrations);
	m->registrations = NULL;
	m->registrations_count = 0;
	return result;
}
