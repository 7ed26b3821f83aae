// SPDX-License-Identifier: Apache-2.0

#include "wait.h"

#include <pthread.h>
#include <stdlib.h>

struct pc_wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t token;
	struct pc_pipe *pipe;
	int32_t users; // of the memory: the stream and the releaser
	int32_t released;
};

struct pc_wait *pc_wait_new(struct pc_pipe *pipe, uint64_t token)
{
	struct pc_wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return NULL;
	pthread_mutex_init(&wait->lock, NULL);
	pthread_cond_init(&wait->changed, NULL);
	wait->token = token;
	wait->pipe = pipe;
	wait->users = 1;
	return wait;
}

// wait_leave unlocks wait, and frees it when nobody uses it any more.
static void wait_leave(struct pc_wait *wait)
{
	int32_t last = --wait->users == 0;

	pthread_mutex_unlock(&wait->lock);
	if (!last)
		return;
	pthread_cond_destroy(&wait->changed);
	pthread_mutex_destroy(&wait->lock);
	free(wait);
}

// wait_run is what the driver calls, on a thread of its own.
static void wait_run(void *data)
{
	struct pc_wait *wait = data;
	int32_t told = pc_pipe_write(wait->pipe, wait->token);

	pthread_mutex_lock(&wait->lock);
	while (!wait->released && told)
		pthread_cond_wait(&wait->changed, &wait->lock);
	wait_leave(wait);
}

int32_t pc_wait_launch(void *launch_host_func, uint64_t stream, struct pc_wait *wait)
{
	int32_t result;

	wait->users = 2;
	result = ((int32_t(*)(uint64_t, void (*)(void *), void *))launch_host_func)(stream,
										    wait_run, wait);
	if (result)
		wait->users = 1;
	return result;
}

void pc_wait_release(struct pc_wait *wait)
{
	pthread_mutex_lock(&wait->lock);
	wait->released = 1;
	pthread_cond_signal(&wait->changed);
	wait_leave(wait);
}
