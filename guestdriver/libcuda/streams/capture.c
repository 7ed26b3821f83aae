/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "streams/capture.h"

#include <stdlib.h>

#include "context/handle.h"
#include "context/zz_generated_calls.h"

/* A capture that has begun. The per-thread stream is one of a thread and context. */
struct capture {
	struct capture *next;
	CUstream stream;
	const struct thread *thread;
	struct context *context;
	int mode;
};

static struct {
	pthread_mutex_t lock; /* guards the list, and changes of capture_count */
	struct capture *captures;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_of(const struct capture *c, CUstream stream)
{
	return c->stream == stream &&
	       (number_of(stream) != CU_STREAM_PER_THREAD ||
		(c->thread == thread_peek() && c->context == context_current()));
}

CUresult capture_enter(CUstream stream, int mode)
{
	struct capture *c = malloc(sizeof(*c));

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct capture){ NULL, stream, thread_self(), context_current(), mode };
	pthread_mutex_lock(&state.lock);
	c->next = state.captures;
	state.captures = c;
	__atomic_fetch_add(&capture_count, 1, __ATOMIC_SEQ_CST);
	channel_await_all(true);
	pthread_mutex_unlock(&state.lock);
	return CUDA_SUCCESS;
}

static void leave(bool (*matches)(const struct capture *c, const void *arg), const void *arg)
{
	pthread_mutex_lock(&state.lock);
	for (struct capture **p = &state.captures; *p;) {
		struct capture *c = *p;

		if (!matches(c, arg)) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		free(c);
		__atomic_fetch_sub(&capture_count, 1, __ATOMIC_SEQ_CST);
		channel_await_all(false);
	}
	pthread_mutex_unlock(&state.lock);
}

static bool in_stream(const struct capture *c, const void *stream)
{
	return is_of(c, (CUstream)(uintptr_t)stream);
}

static bool in_context(const struct capture *c, const void *context)
{
	return c->context == context;
}

void capture_forget_stream(CUstream stream)
{
	if (capture_active())
		leave(in_stream, stream);
}

void capture_forget_context(const struct context *c)
{
	if (capture_active())
		leave(in_context, c);
}

bool capture_is_others(CUstream stream)
{
	bool others = false;

	pthread_mutex_lock(&state.lock);
	for (struct capture *c = state.captures; c; c = c->next)
		if (is_of(c, stream) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		    c->thread != thread_peek())
			others = true;
	pthread_mutex_unlock(&state.lock);
	return others;
}

/* Whether a capture forbids unsafe calls to a thread (see cuThreadExchangeStreamCaptureMode). */
static bool forbids(const struct capture *c, const struct thread *t)
{
	if (t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (c->thread == t)
		return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return t->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/* Invalidates a stream's capture: the driver does that when asked whether the stream is idle. */
static CUresult refuse(bool (*which)(const struct capture *c, const void *arg), const void *arg)
{
	CUstream streams[64];
	unsigned n = 0;

	pthread_mutex_lock(&state.lock);
	for (struct capture *c = state.captures; c && n < 64; c = c->next)
		if (which(c, arg))
			streams[n++] = c->stream;
	pthread_mutex_unlock(&state.lock);
	for (unsigned i = 0; i < n; i++)
		call_cuStreamQuery(number_of(streams[i]));
	return n ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static bool forbids_thread(const struct capture *c, const void *thread)
{
	return forbids(c, thread);
}

CUresult capture_unsafe(void)
{
	return capture_active() ? refuse(forbids_thread, thread_peek()) : CUDA_SUCCESS;
}

CUresult capture_everything(void)
{
	return capture_active() ? refuse(in_context, context_current()) : CUDA_SUCCESS;
}
