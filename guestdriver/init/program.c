/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link.h"

/* A program as its parent sees it; a descriptor is -1 when closed. */
struct program {
	pid_t pid;
	int link;
	int signals;
	int in;
	int out[2]; /* its standard output and error */

	struct frame frame; /* what came over the link last */
	size_t input_done, input_len; /* of standard input in it, still to write */
	int ended;
	int status;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* start_failed tells why the program did not start, on its standard error. */
static void start_failed(const char *what)
{
	int e = errno;

	dprintf(STDERR_FILENO, "paracuda: %s: %s\n", what, strerror(e));
	_exit(e == ENOENT ? 127 : 126);
}

static void become(const struct job *job, const int fds[3])
{
	sigset_t none;

	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], i) < 0)
			_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	if (chdir(job->dir) < 0)
		start_failed(job->dir);
	environ = job->env;
	execvp(job->args[0], job->args);
	start_failed(job->args[0]);
}

/* input opens what the program reads: its end in [0], the parent's in [1]. */
static int input(const struct job *job, int fds[2])
{
	fds[1] = -1;
	if (!job->no_stdin)
		return pipe2(fds, O_CLOEXEC);
	fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fds[0];
}

static int start(struct program *p, const struct job *job)
{
	int in[2], out[2], err[2];

	if (input(job, in) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		return -1;
	p->pid = fork();
	if (p->pid < 0)
		return -1;
	if (p->pid == 0)
		become(job, (int[]){ in[0], out[1], err[1] });
	close(in[0]);
	close(out[1]);
	close(err[1]);
	p->in = in[1];
	p->out[0] = out[0];
	p->out[1] = err[0];
	for (int i = 0; i < 2; i++)
		fcntl(p->out[i], F_SETFL, O_NONBLOCK);
	if (p->in >= 0)
		fcntl(p->in, F_SETFL, O_NONBLOCK);
	return 0;
}

/* reap collects every ended process, as the first process of a system must. */
static void reap(struct program *p)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	if (read(p->signals, &info, sizeof(info)) < 0 && errno != EAGAIN)
		return;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != p->pid)
			continue;
		p->ended = 1;
		p->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
}

/* relay_output passes on what is in a pipe: 1 if there was some, -1 if the host is gone. */
static int relay_output(struct program *p, int i)
{
	static char data[LINK_DATA_MAX];
	ssize_t n = read(p->out[i], data, sizeof(data));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		close_fd(&p->out[i]);
		return 0;
	}
	return link_send(p->link, i == 0 ? FRAME_STDOUT : FRAME_STDERR, data, n) < 0 ? -1 : 1;
}

static void write_input(struct program *p)
{
	ssize_t n = write(p->in, p->frame.data + p->input_done, p->input_len - p->input_done);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		close_fd(&p->in); /* nobody reads it: what still comes is dropped */
		n = p->input_len - p->input_done;
	}
	p->input_done += n;
}

static int receive(struct program *p)
{
	struct frame *f = &p->frame;

	if (link_receive(p->link, f) < 0)
		return -1;
	if (f->type == FRAME_CLOSE && f->len == 4 && (f->data[0] == 1 || f->data[0] == 2))
		close_fd(&p->out[f->data[0] - 1]);
	if (f->type != FRAME_STDIN)
		return 0;
	if (f->len == 0)
		close_fd(&p->in);
	p->input_done = 0;
	p->input_len = f->len;
	return 0;
}

/* turn waits for something to do and does it; -1 if the host is gone. */
static int turn(struct program *p)
{
	int pending = p->in >= 0 && p->input_done < p->input_len;
	struct pollfd fds[] = {
		{ .fd = p->signals, .events = POLLIN },
		{ .fd = p->out[0], .events = POLLIN },
		{ .fd = p->out[1], .events = POLLIN },
		{ .fd = pending ? p->in : -1, .events = POLLOUT },
		{ .fd = pending ? -1 : p->link, .events = POLLIN },
	};

	if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
		return errno == EINTR ? 0 : -1;
	if (fds[0].revents)
		reap(p);
	for (int i = 0; i < 2; i++)
		if (fds[1 + i].revents && relay_output(p, i) < 0)
			return -1;
	if (fds[3].revents)
		write_input(p);
	return fds[4].revents ? receive(p) : 0;
}

/* drain passes on what the program left in its pipes. */
static int drain(struct program *p)
{
	int r;

	for (int i = 0; i < 2; i++) {
		while (p->out[i] >= 0 && (r = relay_output(p, i)) != 0)
			if (r < 0)
				return -1;
		close_fd(&p->out[i]);
	}
	return 0;
}

static int watch_children(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int program_run(const struct job *job, int link)
{
	static struct program p = { .in = -1, .out = { -1, -1 } };

	p.link = link;
	p.signals = watch_children();
	if (p.signals < 0 || start(&p, job) < 0)
		return -1;
	while (!p.ended)
		if (turn(&p) < 0)
			return -1;
	if (drain(&p) < 0)
		return -1;
	return p.status;
}
