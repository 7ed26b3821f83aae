/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 60 /* seconds */, LOOKS = 100 /* in a second */ };

#define READ_LOG "dmesg | grep paracuda"

/* The libraries print what the finding says: their output is dropped. */
static _Noreturn void child(void (*check)(struct finding *f), struct finding *f, pid_t parent)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (nowhere >= 0)
		dup2(nowhere, STDERR_FILENO);
	check(f);
	_exit(0);
}

/* Waits for a child; -1: it took longer than PATIENCE, and was killed. */
static int await(pid_t pid)
{
	const struct timespec pause = { .tv_nsec = 1000000000 / LOOKS };
	int status;

	for (int looks = 0; looks < PATIENCE * LOOKS; looks++) {
		pid_t ended = waitpid(pid, &status, WNOHANG);

		if (ended == pid)
			return status;
		if (ended < 0 && errno != EINTR)
			return -1;
		nanosleep(&pause, NULL);
	}
	kill(-pid, SIGKILL);
	/* Not waited for: it may hang in the kernel. */
	return -1;
}

void apart(void (*check)(struct finding *f), struct finding *f)
{
	struct finding *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), pid;
	int status;

	if (shared == MAP_FAILED || (pid = fork()) < 0) {
		bad(f, "ulimit -u 65536", "no process for a check: %s", strerror(errno));
		return;
	}
	if (pid == 0)
		child(check, shared, parent);
	status = await(pid);
	if (status < 0)
		bad(f, READ_LOG, "no answer within %d s", PATIENCE);
	else if (!WIFEXITED(status) || WEXITSTATUS(status))
		bad(f, READ_LOG, "the check ended with status %#x", (unsigned)status);
	else
		*f = *shared;
	munmap(shared, sizeof(*shared));
}
