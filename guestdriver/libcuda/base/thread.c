/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"

int library_state;

_Thread_local struct thread thread_own;

/* Written once: by the first thread, and by the start. */
static struct {
	pthread_once_t once;
	pthread_key_t key;
	void (*leave)(struct thread *t);
} state = { .once = PTHREAD_ONCE_INIT };

static void thread_exit(void *value)
{
	struct thread *t = value;

	if (state_check() == CUDA_SUCCESS && state.leave)
		state.leave(t);
	free(t->stack);
	memset(t, 0, sizeof(*t));
}

void thread_at_exit(void (*hook)(struct thread *t))
{
	state.leave = hook;
}

static void forked(void)
{
	if (library_state == STATE_READY)
		library_state = STATE_FORKED;
}

static void make_key(void)
{
	pthread_key_create(&state.key, thread_exit);
	pthread_atfork(NULL, NULL, forked);
}

struct thread *thread_self(void)
{
	if (!thread_own.registered) {
		pthread_once(&state.once, make_key);
		pthread_setspecific(state.key, &thread_own);
		thread_own.registered = true;
	}
	return &thread_own;
}
