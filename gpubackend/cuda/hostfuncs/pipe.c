// SPDX-License-Identifier: Apache-2.0

#include "pipe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct pc_pipe {
	pthread_rwlock_t lock; // held by those who write; the descriptor changes under it alone
	int32_t fd; // -1: closed
};

struct pc_pipe *pc_pipe_new(int32_t fd)
{
	struct pc_pipe *pipe = calloc(1, sizeof(*pipe));

	if (!pipe)
		return NULL;
	pthread_rwlock_init(&pipe->lock, NULL);
	pipe->fd = fd;
	return pipe;
}

int32_t pc_pipe_write(struct pc_pipe *pipe, uint64_t word)
{
	ssize_t n = -1;

	pthread_rwlock_rdlock(&pipe->lock);
	while (pipe->fd >= 0) {
		n = write(pipe->fd, &word, sizeof(word));
		if (n >= 0 || errno != EINTR)
			break;
	}
	pthread_rwlock_unlock(&pipe->lock);
	return n == (ssize_t)sizeof(word);
}

void pc_pipe_close(struct pc_pipe *pipe)
{
	pthread_rwlock_wrlock(&pipe->lock);
	if (pipe->fd >= 0)
		close(pipe->fd);
	pipe->fd = -1;
	pthread_rwlock_unlock(&pipe->lock);
}
