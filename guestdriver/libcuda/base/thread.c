/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"

int library_state;

static _Thread_local struct thread self;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*leave)(struct thread *t);

static void thread_exit(void *value)
{
	struct thread *t = value;

	if (state_check() == CUDA_SUCCESS && leave)
		leave(t);
	free(t->stack);
	memset(t, 0, sizeof(*t));
}

void thread_at_exit(void (*hook)(struct thread *t))
{
	leave = hook;
}

static void forked(void)
{
	if (library_state == STATE_READY)
		library_state = STATE_FORKED;
}

static void make_key(void)
{
	pthread_key_create(&key, thread_exit);
	pthread_atfork(NULL, NULL, forked);
}

struct thread *thread_peek(void)
{
	return &self;
}

struct thread *thread_self(void)
{
	if (!self.registered) {
		pthread_once(&once, make_key);
		pthread_setspecific(key, &self);
		self.registered = true;
	}
	return &self;
}
