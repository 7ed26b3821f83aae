/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program that a stream calls. A thread of this library runs them in the worker's
 * order: the worker announces the next one in a slot of the thread's own, and the thread says in
 * the arena's header which has returned. Commands aren't used: the worker may be busy with one that
 * waits for this very function.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "streams/host_function.h"

#include "base/log.h"
#include "base/table.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "streams/capture.h"
#include "streams/stream.h"
#include "transport/ring.h"
#include "transport/slot.h"

/* Numbers of functions of graphs have this bit. */
#define KEPT ((uint64_t)1 << PARACUDA_KEPT_TOKEN_BIT)

struct pending {
	struct pending *next;
	uint64_t token;
	CUstream stream;
	CUhostFn function; /* cuLaunchHostFunc */
	CUstreamCallback callback; /* cuStreamAddCallback */
	void *data;
};

static struct {
	pthread_mutex_t lock; /* guards what follows; readers of the tables need none */
	struct pending *waiting;
	/* Functions of graphs, called again and again: by token, and by a hash of the call. */
	struct table kept, known;
	uint64_t last_token;
	bool started; /* the thread */
	CUresult ended; /* why it is gone */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .kept = TABLE_INIT, .known = TABLE_INIT };

static struct pending *take(uint64_t token)
{
	struct pending **p, *found;

	pthread_mutex_lock(&state.lock);
	for (p = &state.waiting; *p && token && (*p)->token != token; p = &(*p)->next)
		;
	found = *p;
	if (found)
		*p = found->next;
	pthread_mutex_unlock(&state.lock);
	return found;
}

bool host_function_find(uint64_t token, CUhostFn *fn, void **data)
{
	const struct pending *p = table_find(&state.kept, token);

	if (p) {
		*fn = p->function;
		*data = p->data;
	}
	return p != NULL;
}

/*
 * A callback is always called, with the error if there is one. A host function is called only if
 * there is none.
 */
static void run(struct pending *p, CUresult status)
{
	if (p->callback)
		p->callback(p->stream, status, p->data);
	else if (!status)
		p->function(p->data);
	free(p);
}

static void run_kept(uint64_t token)
{
	CUhostFn function;
	void *data;

	if (host_function_find(token, &function, &data))
		function(data);
}

static void run_token(uint64_t token)
{
	struct pending *p;

	if (token & KEPT) {
		run_kept(token);
		return;
	}
	p = token ? take(token) : NULL;
	if (p)
		run(p, CUDA_SUCCESS);
}

static void *serve(void *unused)
{
	struct ticket t = { .slot = PARACUDA_HOST_SLOT };
	struct pending *p;
	CUresult result;

	(void)unused;
	for (;;) {
		uint64_t token;

		t.seq++;
		result = channel_wait(&t, &token, 1);
		if (result)
			break;
		run_token(token);
		__atomic_store_n(&channel.header->host_done, t.seq, __ATOMIC_RELEASE);
		ring_wake();
	}
	/*
	 * The channel or the context is dead: waiting calls end with its error, and so do later
	 * ones.
	 */
	pthread_mutex_lock(&state.lock);
	state.ended = result;
	pthread_mutex_unlock(&state.lock);
	while ((p = take(0)))
		run(p, result);
	return NULL;
}

/* Starts the thread, which takes none of the program's signals. */
static CUresult start(void)
{
	sigset_t all, old;
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attributes, serve, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error)
		log_line("starting the thread for host functions: error %d", error);
	return error ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static uint64_t hash(CUhostFn fn, const void *data)
{
	uint64_t key = (uintptr_t)fn * 0x9e3779b97f4a7c15u ^ (uintptr_t)data;

	return key ? key : 1;
}

/* A pair that is known already, or a new one with a number of its own. */
static struct pending *keep(CUhostFn fn, void *data)
{
	uint64_t key = hash(fn, data);
	struct pending *p = table_find(&state.known, key);

	if (p && p->function == fn && p->data == data)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->function = fn;
	p->data = data;
	p->token = ++state.last_token | KEPT;
	if (!table_put(&state.kept, p->token, p)) {
		free(p);
		return NULL;
	}
	table_put(&state.known, key, p); /* without memory for it, it isn't found again */
	return p;
}

CUresult host_function_keep(CUhostFn fn, void *data, uint64_t *token)
{
	CUresult result = CUDA_SUCCESS;
	const struct pending *p = NULL;

	pthread_mutex_lock(&state.lock);
	if (!state.started) {
		result = start();
		state.started = !result;
	}
	if (!result)
		p = keep(fn, data);
	pthread_mutex_unlock(&state.lock);
	if (p)
		*token = p->token;
	return p ? CUDA_SUCCESS : result ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A function that is captured is a node of the graph. */
static CUresult capture(CUstream stream, CUhostFn function, void *data)
{
	uint64_t token;
	CUresult result = host_function_keep(function, data, &token);

	return result ? result : call_HostFunc(number_of(stream), token);
}

static CUresult submit(struct pending *p)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t token;
	struct request r;

	pthread_mutex_lock(&state.lock);
	if (!state.started) {
		result = start();
		state.started = !result;
	}
	token = p->token = ++state.last_token;
	if (!result)
		result = state.ended;
	if (!result) {
		p->next = state.waiting;
		state.waiting = p;
	}
	pthread_mutex_unlock(&state.lock);
	if (result) {
		free(p);
		return result;
	}
	request_HostFunc(&r, number_of(p->stream), token);
	result = channel_post(&r);
	if (result)
		free(take(token));
	return result;
}

static CUresult enqueue(CUstream stream, CUhostFn function, CUstreamCallback callback, void *data)
{
	struct pending *p;
	CUresult result;

	if (!function && !callback)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = callback ? capture_question(stream) : capture_usable(stream);
	if (result)
		return result;
	if (capture_of(stream))
		return capture(stream, function, data);
	p = calloc(1, sizeof(*p));
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->stream = stream;
	p->function = function;
	p->callback = callback;
	p->data = data;
	return submit(p);
}

EXPORT CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	ENTER_CONTEXT();
	return enqueue(hStream, fn, NULL, userData);
}

EXPORT CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
				    unsigned int flags)
{
	ENTER_CONTEXT();
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return enqueue(hStream, NULL, callback, userData);
}
