/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOADER "/lib64/ld-linux-x86-64.so.2"

int gpu_beside(const char *name, char *path, size_t room)
{
	Dl_info self;
	const char *end;
	int n;

	if (!dladdr((void *)gpu_query, &self) || !self.dli_fname)
		return -1;
	end = strrchr(self.dli_fname, '/');
	if (!end)
		return -1;
	n = snprintf(path, room, "%.*s/%s", (int)(end - self.dli_fname), self.dli_fname, name);
	return n > 0 && (size_t)n < room ? 0 : -1;
}

/* The dynamic loader of this process. */
static const char *loader(void)
{
	unsigned long base = getauxval(AT_BASE);
	Dl_info info;

	return base && dladdr((void *)base, &info) && info.dli_fname && info.dli_fname[0] == '/' ?
		       info.dli_fname :
		       LOADER;
}

/*
 * Starts this library as a program. Returns the end of a pipe to read its standard output.
 */
static int start(int with_memory, pid_t *pid)
{
	Dl_info self;
	char *argv[] = { "paracuda-query", NULL, with_memory ? "memory" : NULL, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int ends[2], error;

	if (!dladdr((void *)gpu_query, &self) || !self.dli_fname || pipe2(ends, O_CLOEXEC))
		return -1;
	argv[1] = (char *)self.dli_fname;
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	error = posix_spawn(pid, loader(), &actions, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	close(ends[1]);
	if (error) {
		close(ends[0]);
		return -1;
	}
	return ends[0];
}

static size_t read_all(int fd, void *data, size_t room)
{
	size_t have = 0;

	while (have < room) {
		ssize_t n = read(fd, (char *)data + have, room - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

int gpu_query(struct gpu *gpus, int room, int with_memory)
{
	int saved = errno, status = 0, fd;
	pid_t pid;
	size_t have;

	fd = start(with_memory, &pid);
	if (fd < 0)
		return -1;
	have = read_all(fd, gpus, (size_t)room * sizeof(*gpus));
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	errno = saved;
	if (have % sizeof(*gpus) || (have == 0 && status))
		return -1;
	return (int)(have / sizeof(*gpus));
}
