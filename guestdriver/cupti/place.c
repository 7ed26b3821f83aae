/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <stdlib.h>

#include "clock.h"
#include "driver.h"

#define PLACES 16

/*
 * A moment is used this long: the time between two events is less exact the longer it is.
 */
#define ANCHOR_NS 1000000000u

#define TRIES 3

struct spare {
	struct spare *next;
	void *event;
};

static struct place places[PLACES];
static unsigned count;

struct place *place_current(void)
{
	const struct driver *d = driver();
	struct place *p = &places[count];
	void *context;

	if (d->context(&context) || !context)
		return NULL;
	for (unsigned i = 0; i < count; i++)
		if (places[i].context == context)
			return &places[i];
	if (count == PLACES || d->device(&p->device) ||
	    d->stream_create(&p->stream, CU_STREAM_NON_BLOCKING))
		return NULL;
	p->context = context;
	p->number = ++count;
	return p;
}

void place_end(struct place *p)
{
	p->context = NULL;
	p->spare = NULL; /* its events went with the context */
}

void *place_event(struct place *p)
{
	struct spare *s = p->spare;
	void *event = NULL;

	if (!s)
		return driver()->event_create(&event, CU_EVENT_DEFAULT) ? NULL : event;
	p->spare = s->next;
	event = s->event;
	free(s);
	return event;
}

void place_event_give(struct place *p, void *event)
{
	struct spare *s = event ? malloc(sizeof(*s)) : NULL;

	if (!s)
		return;
	if (!p->context) {
		free(s);
		return;
	}
	*s = (struct spare){ p->spare, event };
	p->spare = s;
}

/*
 * Records the event, and when that was. A context's first wait takes longer, as it sets up what
 * waits need.
 */
static bool settle(struct place *p, struct anchor *a)
{
	const struct driver *d = driver();

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = clock_now();

		if (d->event_record(a->event, p->stream) || d->event_synchronize(a->event))
			return false;
		a->ns = before + (clock_now() - before) / 2;
	}
	return true;
}

static void anchor_free(struct place *p, struct anchor *a)
{
	place_event_give(p, a->event);
	free(a);
}

struct anchor *place_anchor(struct place *p)
{
	struct anchor *a = p->anchor;

	if (a && clock_now() - a->ns < ANCHOR_NS) {
		a->users++;
		return a;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->event = place_event(p);
	if (!a->event || !settle(p, a)) {
		anchor_free(p, a);
		return NULL;
	}
	if (p->anchor && !p->anchor->users)
		anchor_free(p, p->anchor);
	p->anchor = a;
	a->users++;
	return a;
}

void place_anchor_give(struct place *p, struct anchor *a)
{
	if (!--a->users && a != p->anchor)
		anchor_free(p, a);
}
