// SPDX-License-Identifier: Apache-2.0

// Streams, events and host functions of the fake.

// A stream that is destroyed is remembered: who asks it is told off.
struct stream {
	int waiting, gone;
	struct graph *graph;
	void *context;
	struct stream *next;
};
static struct stream legacy;
static struct stream *stream_of(void *s)
{
	return (u64)s < 3 ? &legacy : s;
}

static struct stream *streams;
static void end_streams(const void *c)
{
	for (struct stream *s = streams; s; s = s->next)
		s->gone |= s->context == c;
}

API CUresult cuStreamCreateWithPriority(struct stream **s, unsigned flags, int priority)
{
	IN_CONTEXT;
	(void)priority;
	*s = calloc(1, sizeof(**s));
	(*s)->context = current;
	(*s)->next = streams;
	streams = *s;
	return flags > 1;
}

API CUresult cuStreamDestroy_v2(void *s)
{
	IN_CONTEXT;
	stream_of(s)->gone = 1;
	return OK;
}

API CUresult cuStreamSynchronize(void *s)
{
	IN_CONTEXT;
	(void)s;
	return OK;
}

API CUresult cuStreamWriteValue32_v2(void *s, u64 addr, unsigned value, unsigned flags)
{
	IN_CONTEXT;
	(void)s;
	if (flags)
		return INVALID;
	COUNT;
	*(unsigned *)addr = value;
	return OK;
}

API CUresult cuStreamQuery(void *s)
{
	IN_CONTEXT;
	if (stream_of(s)->gone)
		return 400;
	if (capturing(s))
		return 900;
	if (__atomic_load_n(&stream_of(s)->waiting, __ATOMIC_ACQUIRE))
		return NOT_READY;
	if (not_ready > 0) {
		not_ready--;
		return NOT_READY;
	}
	return OK;
}

struct event {
	struct timespec at;
	struct graph *graph;
};
API CUresult cuStreamWaitEvent(void *s, const struct event *e, unsigned f)
{
	IN_CONTEXT;
	if (e->graph)
		stream_of(s)->graph = e->graph;
	return f ? INVALID : OK;
}

API CUresult cuEventCreate(void **e, unsigned flags)
{
	IN_CONTEXT;
	*e = calloc(1, sizeof(struct event));
	return flags > 3 && flags != 6;
}

API CUresult cuEventDestroy_v2(void *e)
{
	IN_CONTEXT;
	free(e);
	return OK;
}

API CUresult cuEventRecordWithFlags(struct event *e, void *s, unsigned f)
{
	IN_CONTEXT;
	COUNT;
	if (stream_of(s)->gone)
		return 400;
	e->graph = capturing(s) ? stream_of(s)->graph : NULL;
	clock_gettime(CLOCK_MONOTONIC, &e->at);
	return f ? INVALID : OK;
}

API CUresult cuEventQuery(void *e)
{
	IN_CONTEXT;
	(void)e;
	if (not_ready > 0) {
		not_ready--;
		return NOT_READY;
	}
	return OK;
}

API CUresult cuEventSynchronize(void *e)
{
	IN_CONTEXT;
	(void)e;
	return OK;
}

API CUresult cuEventElapsedTime(float *ms, struct event *a, struct event *b)
{
	IN_CONTEXT;
	if (!a->at.tv_sec || !b->at.tv_sec) // never recorded
		return 400;
	*ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 +
		      (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
	return OK;
}

struct call {
	void (*f)(void *);
	void *data;
	struct stream *s;
};
static void *caller(void *p)
{
	struct call c = *(struct call *)p;
	free(p);
	c.f(c.data);
	__atomic_sub_fetch(&c.s->waiting, 1, __ATOMIC_RELEASE);
	return NULL;
}

API CUresult cuLaunchHostFunc(void *s, void (*f)(void *), void *data)
{
	IN_CONTEXT;
	struct call *c = malloc(sizeof(*c));
	pthread_t t;
	*c = (struct call){ f, data, stream_of(s) };
	__atomic_add_fetch(&c->s->waiting, 1, __ATOMIC_ACQUIRE);
	if (pthread_create(&t, NULL, caller, c))
		return 999;
	pthread_detach(t);
	return OK;
}

// Interprocess events: the handle is the event's address and a mark.
struct event_handle {
	u64 word[8];
};
API CUresult cuIpcGetEventHandle(struct event_handle *h, void *e)
{
	IN_CONTEXT;
	memset(h, 0, sizeof(*h));
	h->word[0] = (u64)e;
	h->word[7] = MARK;
	return OK;
}

API CUresult cuIpcOpenEventHandle(void **e, struct event_handle h)
{
	IN_CONTEXT;
	*e = (void *)h.word[0];
	return h.word[7] == MARK ? OK : BAD_HANDLE;
}
