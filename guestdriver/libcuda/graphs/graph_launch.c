/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of executable graphs, and their end. A graph's user objects last until its launches are
 * over. This library learns that from an event after the last launch; a host function would hold up
 * the stream. Few graphs have such objects; the others get no event.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "addresses/graph_memory.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "graphs/graph.h"
#include "streams/activity.h"
#include "streams/stream.h"

/*
 * An event after the last launch in a context: launches of a graph follow one another, whatever
 * their streams.
 */
struct mark {
	struct mark *next;
	uint64_t context, event; /* the worker's handles */
};

struct exec {
	struct handle handle;
	bool objects; /* it refers to user objects */
	bool memory; /* it allocates or frees memory: a launch may be refused */
	struct mark *marks;
};

/* User objects of a graph that is gone, while launches of it still run. */
struct rest {
	struct reference *objects;
	struct mark *marks;
};

/* The lock keeps a launch and the record after it together, and guards the marks. */
static struct {
	pthread_mutex_t lock;
} state = { PTHREAD_MUTEX_INITIALIZER };

CUresult exec_enter(CUgraphExec *out, uint64_t number, CUgraph graph)
{
	struct exec *e = (struct exec *)handle_new(sizeof(*e), 0);
	CUresult result;

	if (e) {
		e->objects = user_objects_inherit(number, number_of(graph));
		e->memory = graph_has_memory(number_of(graph));
	}
	result = handle_enter(HANDLE_GEXEC, number, (struct handle *)e);
	if (result)
		user_objects_release(user_objects_take(number));
	else
		*out = (CUgraphExec)(uintptr_t)number;
	return result;
}

static struct exec *find(CUgraphExec exec)
{
	return (struct exec *)handle_find(HANDLE_GEXEC, exec);
}

/* Makes a command one about a mark, in the mark's own context. Nobody gets its errors. */
static void about_mark(struct request *r, const struct mark *m)
{
	r->exact = true;
	r->context = m->context;
}

/* The mark of a context, made if need be; NULL with the error when there can't be one. */
static struct mark *mark_of(struct exec *e, uint64_t context, CUresult *result)
{
	struct mark *m = e->marks;
	struct request r;

	*result = CUDA_SUCCESS;
	while (m && m->context != context)
		m = m->next;
	if (m)
		return m;
	m = malloc(sizeof(*m));
	*result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!m)
		return NULL;
	*m = (struct mark){ e->marks, context, 0 };
	request_EventCreate(&r, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
	about_mark(&r, m);
	*result = channel_call(&r, &m->event, 1);
	if (*result) {
		free(m);
		return NULL;
	}
	e->marks = m;
	return m;
}

/* The answer is awaited if the launch may be refused. */
static CUresult launch(const struct exec *e, CUgraphExec exec, CUstream stream)
{
	struct request r;

	if (!e->memory)
		return post_cuGraphLaunch(number_of(exec), number_of(stream));
	request_cuGraphLaunch(&r, number_of(exec), number_of(stream));
	return channel_call(&r, NULL, 0);
}

static CUresult launch_marked(struct exec *e, CUgraphExec exec, CUstream stream)
{
	CUcontext c = NULL;
	struct mark *m;
	struct request r;
	CUresult result = cuStreamGetCtx(stream, &c);

	if (result)
		return result;
	pthread_mutex_lock(&state.lock);
	m = mark_of(e, __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE), &result);
	if (m)
		result = launch(e, exec, stream);
	if (!result) {
		request_cuEventRecordWithFlags(&r, m->event, number_of(stream), 0);
		about_mark(&r, m);
		channel_post(&r);
	}
	pthread_mutex_unlock(&state.lock);
	return result;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	struct exec *e;

	ENTER_CONTEXT();
	e = find(hGraphExec);
	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	return WATCH(e->objects ? launch_marked(e, hGraphExec, hStream) :
				  launch(e, hGraphExec, hStream),
		     .kind = PARACUDA_GRAPH, .stream = hStream);
}

EXPORT CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	ENTER_CONTEXT();
	if (!find(hGraphExec))
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	return post_cuGraphUpload(number_of(hGraphExec), number_of(hStream));
}

/*
 * Asks whether launches are over, or waits until they are. An event that the worker doesn't know
 * has ended with its context.
 */
static bool is_over(const struct mark *m, bool wait)
{
	struct request r;

	if (wait)
		request_cuEventSynchronize(&r, m->event);
	else
		request_cuEventQuery(&r, m->event);
	about_mark(&r, m);
	return channel_call(&r, NULL, 0) != CUDA_ERROR_NOT_READY;
}

/* Drops the marks whose launches are over, all of them if it is to wait. */
static void settle(struct mark **at, bool wait)
{
	while (*at) {
		struct mark *m = *at;
		struct request r;

		if (!is_over(m, wait)) {
			at = &m->next;
			continue;
		}
		request_cuEventDestroy_v2(&r, m->event);
		about_mark(&r, m);
		channel_call(&r, NULL,
			     0); /* delayed, an error would fall on the program's next call */
		*at = m->next;
		free(m);
	}
}

static void *wait_for_rest(void *arg)
{
	struct rest *rest = arg;

	settle(&rest->marks, true);
	user_objects_release(rest->objects);
	free(rest);
	return NULL;
}

/*
 * Waits on a thread of its own, which takes none of the program's signals; without one the objects
 * stay forever.
 */
static void release_later(struct reference *objects, struct mark *marks)
{
	struct rest *rest = malloc(sizeof(*rest));
	sigset_t all, old;
	pthread_t thread;

	if (!rest)
		return;
	*rest = (struct rest){ objects, marks };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, NULL, wait_for_rest, rest) == 0)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct reference *objects;
	struct mark *marks;
	struct exec *e;
	CUresult result;

	ENTER_CONTEXT();
	e = find(hGraphExec);
	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuGraphExecDestroy(number_of(hGraphExec));
	if (result)
		return result;
	marks = e->marks;
	handle_forget(HANDLE_GEXEC, hGraphExec);
	objects = user_objects_take(number_of(hGraphExec));
	settle(&marks, false);
	if (marks)
		release_later(objects, marks);
	else
		user_objects_release(objects);
	return channel_error(true);
}
