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
	return (u64)s <= CU_STREAM_PER_THREAD ? &legacy : s;
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
	return flags > CU_STREAM_NON_BLOCKING ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuStreamDestroy_v2(void *s)
{
	IN_CONTEXT;
	stream_of(s)->gone = 1;
	return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(void *s)
{
	IN_CONTEXT;
	(void)s;
	return CUDA_SUCCESS;
}

API CUresult cuStreamWriteValue32_v2(void *s, u64 addr, unsigned value, unsigned flags)
{
	IN_CONTEXT;
	(void)s;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	COUNT;
	*(unsigned *)reach((void *)addr, 4) = value;
	return CUDA_SUCCESS;
}

API CUresult cuStreamQuery(void *s)
{
	IN_CONTEXT;
	if (stream_of(s)->gone)
		return CUDA_ERROR_INVALID_HANDLE;
	if (capturing(s))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (__atomic_load_n(&stream_of(s)->waiting, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_NOT_READY;
	if (not_ready > 0) {
		not_ready--;
		return CUDA_ERROR_NOT_READY;
	}
	return CUDA_SUCCESS;
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
	return f ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuEventCreate(void **e, unsigned flags)
{
	IN_CONTEXT;
	*e = calloc(1, sizeof(struct event));
	return flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING) &&
			       flags != (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ?
		       CUDA_ERROR_INVALID_VALUE :
		       CUDA_SUCCESS;
}

API CUresult cuEventDestroy_v2(void *e)
{
	IN_CONTEXT;
	free(e);
	return CUDA_SUCCESS;
}

API CUresult cuEventRecordWithFlags(struct event *e, void *s, unsigned f)
{
	IN_CONTEXT;
	COUNT;
	if (stream_of(s)->gone)
		return CUDA_ERROR_INVALID_HANDLE;
	e->graph = capturing(s) ? stream_of(s)->graph : NULL;
	clock_gettime(CLOCK_MONOTONIC, &e->at);
	return f ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuEventQuery(void *e)
{
	IN_CONTEXT;
	(void)e;
	if (not_ready > 0) {
		not_ready--;
		return CUDA_ERROR_NOT_READY;
	}
	return CUDA_SUCCESS;
}

API CUresult cuEventSynchronize(void *e)
{
	IN_CONTEXT;
	(void)e;
	return CUDA_SUCCESS;
}

API CUresult cuEventElapsedTime(float *ms, struct event *a, struct event *b)
{
	IN_CONTEXT;
	if (!a->at.tv_sec || !b->at.tv_sec) // never recorded
		return CUDA_ERROR_INVALID_HANDLE;
	*ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 +
		      (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
	return CUDA_SUCCESS;
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
		return CUDA_ERROR_UNKNOWN;
	pthread_detach(t);
	return CUDA_SUCCESS;
}

// Interprocess events: the handle is the event's address, and a mark at its end.
struct shown_event {
	u64 event, unused[6], mark;
};
_Static_assert(sizeof(struct shown_event) == sizeof(CUipcEventHandle), "it is all of a handle");
API CUresult cuIpcGetEventHandle(CUipcEventHandle *h, void *e)
{
	IN_CONTEXT;
	const struct shown_event shown = { .event = (u64)e, .mark = MARK };
	memcpy(h, &shown, sizeof(shown));
	return CUDA_SUCCESS;
}

API CUresult cuIpcOpenEventHandle(void **e, CUipcEventHandle h)
{
	IN_CONTEXT;
	struct shown_event shown;
	memcpy(&shown, &h, sizeof(shown));
	*e = (void *)shown.event;
	return shown.mark == MARK ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
