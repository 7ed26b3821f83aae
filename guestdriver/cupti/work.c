/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "work.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffers.h"
#include "clock.h"
#include "cupti.h"
#include "driver.h"
#include "names.h"

/* Work that isn't over, at most: beyond it records are dropped. */
#define PENDING_MAX 65536

/* From so many on, work that is over is recorded before the client asks. */
#define DRAIN_AT 4096

uint64_t work_kinds;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct work *pending, **pending_end = &pending;
static unsigned pending_count, pending_since_drain;
static uint32_t correlations;

/* The capture mode of the thread that has the lock, to be restored. */
static int capture_mode;

/* Queries of events here must not end a capture that another thread begins. */
void work_lock(void)
{
	pthread_mutex_lock(&lock);
	capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	driver()->capture_mode(&capture_mode);
}

void work_unlock(void)
{
	driver()->capture_mode(&capture_mode);
	pthread_mutex_unlock(&lock);
}

static bool wanted(const struct paracuda_work *w, uint64_t kinds)
{
	switch (w->kind) {
	case PARACUDA_KERNEL:
		return kinds & (KINDS_OF_KERNELS | 1ull << KIND_DRIVER);
	case PARACUDA_GRAPH:
		return kinds & KINDS_OF_KERNELS;
	case PARACUDA_COPY:
		return kinds & 1ull << KIND_COPY;
	case PARACUDA_FILL:
		return kinds & 1ull << KIND_FILL;
	}
	return false;
}

static void describe(struct work *w)
{
	const struct driver *d = driver();
	unsigned long long stream = 0;
	const char *name = "CUDA graph";

	d->stream_id(w->given.stream, &stream);
	w->stream = (uint32_t)stream;
	w->thread = (uint32_t)gettid();
	for (unsigned kind = 0; kind < EXTERNAL_KINDS; kind++)
		if (external_top(kind, &w->external[kind]))
			w->externals |= (uint8_t)(1u << kind);
	if (w->given.kind == PARACUDA_KERNEL) {
		if (d->function_name(&name, w->given.function))
			name = "kernel";
		d->function_attribute(&w->registers, CU_FUNC_ATTRIBUTE_NUM_REGS, w->given.function);
		d->function_attribute(&w->shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
				      w->given.function);
		d->function_attribute(&w->local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
				      w->given.function);
	}
	w->name = name_keep(name);
}

static void release(struct work *w)
{
	if (w->place) {
		place_event_give(w->place, w->start);
		place_event_give(w->place, w->end);
	}
	if (w->anchor)
		place_anchor_give(w->place, w->anchor);
	free(w);
}

/* All that a record needs before the work is queued. */
static struct work *prepare(const struct paracuda_work *given, uint64_t kinds)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->given = *given;
	w->place = place_current();
	w->anchor = w->place ? place_anchor(w->place) : NULL;
	w->start = w->anchor ? place_event(w->place) : NULL;
	w->end = w->start ? place_event(w->place) : NULL;
	if (!w->end) {
		release(w);
		return NULL;
	}
	w->correlation = ++correlations;
	w->kinds = kinds;
	describe(w);
	return w;
}

static void drain(void);

static void *begin(const struct paracuda_work *given)
{
	uint64_t kinds = __atomic_load_n(&work_kinds, __ATOMIC_RELAXED);
	struct work *w = NULL;

	if (!wanted(given, kinds))
		return NULL;
	work_lock();
	if (pending_since_drain >= DRAIN_AT)
		drain();
	w = pending_count < PENDING_MAX ? prepare(given, kinds) : NULL;
	if (w)
		buffers_ready();
	else
		buffers_drop();
	work_unlock();
	if (!w)
		return NULL;
	w->called = clock_now();
	if (!driver()->event_record(w->start, given->stream))
		return w;
	work_lock();
	release(w);
	work_unlock();
	return NULL;
}

static void end(void *mark, int result)
{
	struct work *w = mark;

	if (!result)
		result = driver()->event_record(w->end, w->given.stream);
	w->returned = clock_now();
	work_lock();
	if (result) {
		release(w);
	} else {
		*pending_end = w;
		pending_end = &w->next;
		pending_count++;
		pending_since_drain++;
	}
	work_unlock();
}

void work_watch(bool on)
{
	static const struct paracuda_watcher watcher = { begin, end };

	driver()->own->watch(on ? &watcher : NULL);
}

static uint64_t nanoseconds(float milliseconds)
{
	return milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
}

/* Whether the work is over, and when it ran. On an error its context has ended. */
static int times(struct work *w)
{
	const struct driver *d = driver();
	float since, long_;
	int result = d->event_query(w->end);

	if (!result)
		result = d->event_elapsed(&since, w->anchor->event, w->start);
	if (!result)
		result = d->event_elapsed(&long_, w->start, w->end);
	if (result)
		return result;
	/* No work begins before it was submitted. */
	w->began = w->anchor->ns + nanoseconds(since);
	if (w->began < w->called)
		w->began = w->called;
	w->ended = w->began + nanoseconds(long_);
	return 0;
}

/* Takes work that is over off the list. */
static void drain(void)
{
	struct work **at = &pending, *w;
	void *before;
	int result;

	pending_since_drain = 0;
	if (pending)
		clock_read();
	while ((w = *at)) {
		result = driver()->context_push(w->place->context);
		if (!result) {
			result = times(w);
			driver()->context_pop(&before);
		}
		if (result == CUDA_ERROR_NOT_READY) {
			at = &w->next;
			continue;
		}
		if (result) {
			place_end(w->place);
			buffers_drop();
		} else {
			work_record(w);
		}
		*at = w->next;
		pending_count--;
		release(w);
	}
	pending_end = at;
}

void work_drain(void)
{
	work_lock();
	drain();
	buffers_finish();
	work_unlock();
}
