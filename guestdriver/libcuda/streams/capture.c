/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "streams/capture.h"

#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "streams/stream.h"

enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };

/* A capture that has begun. The per-thread stream is one of a thread and context. */
struct capture {
	struct capture *next;
	CUstream stream;
	const struct thread *thread;
	struct context *context;
	int mode;
};

static struct {
	pthread_mutex_t lock;	/* guards the list, and changes of capture_count */
	struct capture *captures;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_of(const struct capture *c, CUstream stream)
{
	return c->stream == stream && (number_of(stream) != STREAM_PER_THREAD ||
				       (c->thread == thread_peek() && c->context == context_current()));
}

static CUresult enter(CUstream stream, int mode)
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

static CUresult check_begin(CUstream stream, int mode)
{
	if (mode < MODE_GLOBAL || mode > MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	/* The legacy stream can't be captured. */
	return number_of(stream) <= STREAM_LEGACY ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	CUresult result;

	ENTER_CONTEXT();
	result = check_begin(hStream, mode);
	if (!result)
		result = call_cuStreamBeginCapture_v2(number_of(hStream), (uint64_t)mode);
	return result ? result : enter(hStream, mode);
}

EXPORT CUresult cuStreamBeginCapture(CUstream hStream)
{
	return cuStreamBeginCapture_v2(hStream, MODE_GLOBAL);
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
					    const CUgraphEdgeData *dependencyData, size_t numDependencies,
					    CUstreamCaptureMode mode)
{
	size_t bytes = numDependencies * 8;
	CUresult result;

	ENTER_CONTEXT();
	result = check_begin(hStream, mode);
	if (!result && (!hGraph || (numDependencies && !dependencies)))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result && capture_of(hStream))
		result = CUDA_ERROR_ILLEGAL_STATE;
	if (!result)
		result = call_cuStreamBeginCaptureToGraph(number_of(hStream), number_of(hGraph),
							  bytes ? dependencies : NULL, bytes,
							  bytes ? dependencyData : NULL, bytes, (uint64_t)mode);
	return result ? result : enter(hStream, mode);
}

/* Only the thread that began a capture may end it, unless that was relaxed. */
static bool is_others(CUstream stream)
{
	bool others = false;

	pthread_mutex_lock(&state.lock);
	for (struct capture *c = state.captures; c; c = c->next)
		if (is_of(c, stream) && c->mode != MODE_RELAXED && c->thread != thread_peek())
			others = true;
	pthread_mutex_unlock(&state.lock);
	return others;
}

EXPORT CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	uint64_t graph;
	CUresult result;

	ENTER_CONTEXT();
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (is_others(hStream))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	result = call_cuStreamEndCapture(number_of(hStream), &graph);
	if (result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED && result != CUDA_ERROR_ILLEGAL_STATE)
		leave(in_stream, hStream);
	if (phGraph)	/* a program may have the graph from elsewhere, or not want it */
		*phGraph = result ? NULL : (CUgraph)(uintptr_t)graph;
	return result;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct thread *t = thread_peek();
	int old = t->capture_mode;

	ENTER();
	if (!mode)	/* modes that aren't there are accepted, and forbid nothing beyond the thread's own captures */
		return CUDA_ERROR_INVALID_VALUE;
	t->capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

/* Whether a capture forbids unsafe calls to a thread (see cuThreadExchangeStreamCaptureMode). */
static bool forbids(const struct capture *c, const struct thread *t)
{
	if (t->capture_mode == MODE_RELAXED)
		return false;
	if (c->thread == t)
		return c->mode != MODE_RELAXED;
	return t->capture_mode == MODE_GLOBAL && c->mode == MODE_GLOBAL;
}

/* Asking whether a stream is idle is what invalidates its capture. */
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
