// SPDX-License-Identifier: Apache-2.0

#include "node.h"

#include <pthread.h>
#include <stdlib.h>

struct pc_due {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t token;
	int32_t users; // of the memory: the stream and the releaser
	int32_t released;
};

// due_leave unlocks due, and frees it when nobody uses it any more.
static void due_leave(struct pc_due *due)
{
	int32_t last = --due->users == 0;

	pthread_mutex_unlock(&due->lock);
	if (!last)
		return;
	pthread_cond_destroy(&due->changed);
	pthread_mutex_destroy(&due->lock);
	free(due);
}

void pc_node_run(void *data)
{
	const struct pc_node *node = data;
	struct pc_due *due = calloc(1, sizeof(*due));
	uint64_t message = (uint64_t)(uintptr_t)due | (uint64_t)1 << 63;
	int32_t told;

	if (!due)
		return;
	pthread_mutex_init(&due->lock, NULL);
	pthread_cond_init(&due->changed, NULL);
	due->token = node->token;
	due->users = 2;
	told = pc_pipe_write(node->pipe, message);
	pthread_mutex_lock(&due->lock);
	if (!told)
		due->users--; // nobody will release it
	while (!due->released && due->users == 2)
		pthread_cond_wait(&due->changed, &due->lock);
	due_leave(due);
}

uint64_t pc_due_token(const struct pc_due *due)
{
	return due->token;
}

void pc_due_release(struct pc_due *due)
{
	pthread_mutex_lock(&due->lock);
	due->released = 1;
	pthread_cond_signal(&due->changed);
	due_leave(due);
}

int32_t pc_node_launch(void *launch_host_func, uint64_t stream, struct pc_node *node)
{
	return ((int32_t(*)(uint64_t, void (*)(void *), void *))launch_host_func)(
		stream, pc_node_run, node);
}
