/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd N MIB: N processes at a time, each of which makes a context and allocates so many MiB. It
 * prints how many got both, how many had no memory for it (2), and how many met something else; and
 * what one more gets when one of the first kind was killed.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64
#define OUT_OF_MEMORY 2
#define MIB (1ul << 20)

typedef int (*init)(unsigned int flags);
typedef int (*retain)(void **context, int device);
typedef int (*set_current)(void *context);
typedef int (*allocate)(unsigned long *address, size_t bytes);

/* What a process gets: CUDA's result, or 255. */
static unsigned char ask(unsigned long mib)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
	init cu_init = library ? (init)dlsym(library, "cuInit") : NULL;
	retain cu_retain = library ? (retain)dlsym(library, "cuDevicePrimaryCtxRetain") : NULL;
	set_current cu_set = library ? (set_current)dlsym(library, "cuCtxSetCurrent") : NULL;
	allocate cu_alloc = library ? (allocate)dlsym(library, "cuMemAlloc_v2") : NULL;
	unsigned long address;
	int result;

	if (!cu_init || !cu_retain || !cu_set || !cu_alloc)
		return 255;
	result = cu_init(0);
	if (!result)
		result = cu_retain(&context, 0);
	if (!result)
		result = cu_set(context);
	if (!result && mib)
		result = cu_alloc(&address, mib * MIB);
	return (unsigned char)result;
}

/* Starts a process that says what it gets, and keeps it until it is killed. */
static pid_t start(unsigned long mib, int *answer)
{
	unsigned char got;
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		exit(2);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		got = ask(mib);
		if (write(ends[1], &got, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	*answer = ends[0];
	return pid;
}

static unsigned char answer_of(int fd)
{
	unsigned char got = 255;

	if (read(fd, &got, 1) != 1)
		got = 255;
	close(fd);
	return got;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, i, got = 0, refused = 0, other = 0, last = -1;
	unsigned long mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	int answers[MOST];
	pid_t pids[MOST];

	if (n < 1 || n > MOST)
		return 2;
	for (i = 0; i < n; i++)
		pids[i] = start(mib, &answers[i]);
	for (i = 0; i < n; i++) {
		unsigned char result = answer_of(answers[i]);

		if (result == 0) {
			got++;
			last = i;
		} else if (result == OUT_OF_MEMORY) {
			refused++;
			end(pids[i]);
			pids[i] = 0;
		} else {
			other++;
			fprintf(stderr, "process %d: result %d\n", i, result);
		}
	}
	printf("%d got it, %d had no memory, %d something else\n", got, refused, other);
	if (last >= 0) {
		end(pids[last]);
		pids[last] = start(mib, &answers[0]);
		printf("one more: %d\n", answer_of(answers[0]));
	}
	for (i = 0; i < n; i++)
		if (pids[i])
			end(pids[i]);
	return 0;
}
