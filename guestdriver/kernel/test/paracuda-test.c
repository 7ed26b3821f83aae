// SPDX-License-Identifier: GPL-2.0
/*
 * Tries what the driver must allow and refuse, in a VM with a device that nobody else uses.
 * Prints a line for each check; the exit status is 0 when all hold. With an argument:
 *   faults: tries what happens when memory is short, under a kernel that can be made to fail
 *   random [SEED [REQUESTS]]: asks for anything at all, from many threads
 *   leaks: looks what was lost, under a kernel with kmemleak
 *   inputs: asks for what standard input says
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "paracuda_ioctl.h"
#include "paracuda_wire.h"

static int failures;
static size_t page;

static void check(int ok, const char *what)
{
	printf("%s: %s\n", ok ? "ok" : "FAILED", what);
	failures += !ok;
}

/* expect checks that a call gave the error (0: success). */
static void expect(int rc, int error, const char *what)
{
	char line[200];
	int got = rc < 0 ? errno : 0;

	snprintf(line, sizeof(line), "%s: %s (got %s)", what,
		 error ? strerrorname_np(error) : "succeeds",
		 got ? strerrorname_np(got) : "success");
	check(got == error, line);
}

static int device(void)
{
	int fd = open(PARACUDA_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror("FAILED: " PARACUDA_DEVICE);
		exit(1);
	}
	return fd;
}

static int open_channel(int fd, struct paracuda_ioctl_open *o)
{
	memset(o, 0, sizeof(*o));
	o->version = PARACUDA_VERSION;
	return ioctl(fd, PARACUDA_IOC_OPEN, o);
}

static int map(int fd, unsigned long long address, unsigned long long bytes, __u32 flags)
{
	struct paracuda_ioctl_map m = { .address = address, .bytes = bytes, .flags = flags };

	return ioctl(fd, PARACUDA_IOC_MAP, &m);
}

static int wait_word(int fd, __u32 offset, __u32 value, __u64 timeout_ns)
{
	struct paracuda_ioctl_wait w = { offset, value, timeout_ns };

	return ioctl(fd, PARACUDA_IOC_WAIT, &w);
}

static void before_open(void)
{
	struct paracuda_ioctl_open o = { .version = PARACUDA_VERSION + 1 };
	int fd = device();

	expect(ioctl(fd, PARACUDA_IOC_KICK), ENOTCONN, "KICK before OPEN");
	expect(map(fd, (long)&o, sizeof(o), 0), ENOTCONN, "MAP before OPEN");
	expect(ioctl(fd, PARACUDA_IOC_OPEN, &o), EPROTO, "OPEN with another version");
	expect(ioctl(fd, PARACUDA_IOC_OPEN, NULL), EFAULT, "OPEN without an argument");
	check(mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED, "no mmap before OPEN");
	close(fd);
}

static void arena(int fd, const struct paracuda_ioctl_open *o)
{
	size_t n = o->arena_bytes;

	check(n > PARACUDA_BULK && n % page == 0, "the arena's size is sane");
	check(mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED,
	      "no private mmap of the arena");
	check(mmap(NULL, n + page, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED,
	      "no mmap past the arena");
	check(mmap(NULL, n - page, PROT_READ, MAP_SHARED, fd, page) == MAP_FAILED,
	      "no mmap of a part of the arena");
}

static void map_errors(int fd)
{
	char *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long a = (unsigned long)p;

	memset(p, 1, 4 * page);
	munmap(p + 2 * page, page);
	mprotect(p + 3 * page, page, PROT_READ);

	expect(map(fd, a, 0, 0), EINVAL, "MAP of no bytes");
	expect(map(fd, a, page, 1U << 31), EINVAL, "MAP with unknown flags");
	expect(map(fd, 0, (1ULL << 32) + 1, 0), EINVAL, "MAP of more than 4 GiB");
	expect(map(fd, -page, 2 * page, 0), EFAULT, "MAP past the end of addresses");
	expect(map(fd, 1ULL << 63, page, 0), EFAULT, "MAP of a kernel address");
	expect(map(fd, 0, page, PARACUDA_MAP_FLAG_ONESHOT), EFAULT, "MAP of the null page");
	expect(map(fd, a, 3 * page, PARACUDA_MAP_FLAG_ONESHOT), EFAULT,
	       "MAP with a hole at its end");
	expect(map(fd, a + page, 2 * page, PARACUDA_MAP_FLAG_WRITE), EFAULT,
	       "writable MAP with a hole at its end");
	expect(map(fd, a + 3 * page, page, PARACUDA_MAP_FLAG_WRITE), EFAULT,
	       "writable MAP of read-only memory");
	expect(ioctl(fd, PARACUDA_IOC_MAP, 16), EFAULT, "MAP without an argument");
	expect(ioctl(fd, _IO('P', 99)), ENOTTY, "an unknown request");
	munmap(p, 4 * page);
}

static void maps(int fd)
{
	const int prot = PROT_READ | PROT_WRITE, priv = MAP_PRIVATE | MAP_ANONYMOUS;
	char *p = mmap(NULL, 1 << 20, prot, priv, -1, 0);
	char *s = mmap(NULL, 1 << 20, prot, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, 1 << 20);
	expect(map(fd, (long)p + 5, (1 << 20) - 9, PARACUDA_MAP_FLAG_WRITE), 0, "MAP");
	expect(map(fd, (long)p, 3, PARACUDA_MAP_FLAG_ONESHOT), 0, "a small oneshot MAP");
	expect(map(fd, (long)s, 1 << 20, PARACUDA_MAP_FLAG_WRITE), 0, "MAP of shared memory");
	mprotect(p, page, PROT_READ);
	expect(map(fd, (long)p, page, 0), 0, "MAP of read-only memory");
	munmap(p, 1 << 20);
	p = mmap(NULL, 1 << 20, prot, priv, -1, 0);
	expect(map(fd, (long)p, 1 << 20, PARACUDA_MAP_FLAG_ONESHOT), 0, "MAP of untouched memory");
	/* All of these stay with the worker; closing the channel releases them. */
	munmap(p, 1 << 20);
	munmap(s, 1 << 20);
}

static void on_alarm(int n)
{
	(void)n;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void waits(int fd, const struct paracuda_ioctl_open *o)
{
	const __u32 slot = PARACUDA_SLOTS + (PARACUDA_SLOT_COUNT - 1) * PARACUDA_SLOT_BYTES;
	struct sigaction sa = { .sa_handler = on_alarm };
	double t;

	expect(wait_word(fd, o->arena_bytes, 0, 1), EINVAL, "WAIT past the arena");
	expect(wait_word(fd, -4, 0, 1), EINVAL, "WAIT far past the arena");
	expect(wait_word(fd, slot + 2, 0, 1), EINVAL, "WAIT on half a word");
	expect(wait_word(fd, slot, 77, 0), 0, "WAIT on a word that differs");
	t = now();
	expect(wait_word(fd, slot, 0, 50 * 1000 * 1000), ETIMEDOUT, "WAIT with a limit");
	check(now() - t >= 0.05, "WAIT doesn't end before its limit");
	sigaction(SIGALRM, &sa, NULL);
	ualarm(50000, 50000);	/* again and again: one that comes before the WAIT doesn't end it */
	expect(wait_word(fd, slot, 0, 0), EINTR, "WAIT and a signal");
	expect(wait_word(fd, slot, 0, ~0ULL), EINTR, "WAIT with the longest limit and a signal");
	ualarm(0, 0);
	expect(ioctl(fd, PARACUDA_IOC_KICK), 0, "KICK");
}

/* run runs f in a child and returns its exit status. */
static int run(int (*f)(int fd, void *arena), int fd, void *arena)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(f(fd, arena));
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int child_uses(int fd, void *arena)
{
	long x = 0;

	(void)arena;
	if (ioctl(fd, PARACUDA_IOC_KICK) == 0 || errno != EPERM)
		return 1;
	if (map(fd, (long)&x, sizeof(x), PARACUDA_MAP_FLAG_ONESHOT) == 0 || errno != EPERM)
		return 2;
	if (mmap(NULL, PARACUDA_BULK, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED || errno != EPERM)
		return 3;
	return 0;
}

static int child_touches(int fd, void *arena)
{
	(void)fd;
	signal(SIGSEGV, SIG_DFL);
	return *(volatile char *)arena & 0;
}

static void forked(int fd, void *arena)
{
	check(run(child_uses, fd, arena) == 0, "a forked child can't use the channel");
	check(run(child_touches, fd, arena) == 1000 + SIGSEGV, "a forked child has no arena");
	expect(ioctl(fd, PARACUDA_IOC_KICK), 0, "KICK after the child closed its descriptor");
}

#include "turn.h"
#include "bounds.h"
#include "users.h"
#include "outlive.h"
#include "spin.h"
#include "vanish.h"

static void one_channel(void)
{
	struct paracuda_ioctl_open o;
	int fd = device();
	void *a;

	expect(open_channel(fd, &o), 0, "OPEN");
	expect(open_channel(fd, &(struct paracuda_ioctl_open){ 0 }), EEXIST, "OPEN twice");
	arena(fd, &o);
	a = mmap(NULL, o.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(a != MAP_FAILED, "mmap of the arena");
	if (a == MAP_FAILED)
		return;
	map_errors(fd);
	maps(fd);
	waits(fd, &o);
	turns(fd, a);
	polls(fd, a, &o);
	forked(fd, a);
	close(fd);
	check(((volatile struct paracuda_arena_header *)a)->dead == 1,
	      "the arena of a closed channel says so");
	outlived(a, o.arena_bytes);
}

/* fill opens channels until there are no more. */
static int fill(int *fds, int max)
{
	struct paracuda_ioctl_open o;
	int n;

	for (n = 0; n < max; n++) {
		fds[n] = device();
		if (open_channel(fds[n], &o))
			break;
	}
	return n;
}

/*
 * holder opens a channel, leaves its descriptor to a child that lives until fd[1] is closed, and
 * ends.
 */
static int holder(int unused, void *pipe)
{
	struct paracuda_ioctl_open o;
	int mine = device(), *fd = pipe;
	pid_t pid;
	char c;

	(void)unused;
	if (open_channel(mine, &o))
		return 1;
	pid = fork();
	if (!pid) {
		close(fd[1]);
		_exit(read(fd[0], &c, 1));
	}
	return pid < 0;
}

static void all_channels(void)
{
	int fds[PARACUDA_MAX_CHANNELS + 1], hold[2], n, i, again;
	struct paracuda_ioctl_open o;
	char line[100];

	n = fill(fds, PARACUDA_MAX_CHANNELS + 1);
	snprintf(line, sizeof(line), "OPEN with %d channels open", n);
	check(n > 0 && n <= PARACUDA_MAX_CHANNELS, "the device has channels, and not too many");
	if (n < 1 || n > PARACUDA_MAX_CHANNELS)
		return;
	expect(open_channel(fds[n], &o), EBUSY, line);
	close(fds[0]);
	expect(open_channel(fds[n], &o), 0, "OPEN just after a channel was closed");
	for (i = 1; i <= n; i++)
		close(fds[i]);

	if (pipe2(hold, O_CLOEXEC)) {
		check(0, "pipe");
		return;
	}
	check(run(holder, -1, hold) == 0, "a process leaves its descriptor to a child");
	again = fill(fds, n);
	check(again == n, "all channels are free when the openers have ended");
	for (i = 0; i < again; i++)
		close(fds[i]);
	close(hold[0]);
	close(hold[1]);
	hoards(n);
	users(n);
}

#include "handles.h"
#include "vouchers.h"

struct sleeper {
	pthread_t thread;
	int fd, error;
};

static void *sleep_on(void *arg)
{
	struct sleeper *s = arg;

	s->error = wait_word(s->fd, PARACUDA_SLOTS, 0, 0) ? errno : 0;
	return NULL;
}

#include "removal.h"

/* Closes a channel in which threads sleep. Returns the error of one that isn't EIO, if any. */
static int close_under_sleepers(unsigned int delay)
{
	struct paracuda_ioctl_open o;
	struct sleeper s[4];
	int fd = device(), i, err = EIO;

	if (open_channel(fd, &o))
		return -1;
	for (i = 0; i < 4; i++) {
		s[i].fd = fd;
		pthread_create(&s[i].thread, NULL, sleep_on, &s[i]);
	}
	usleep(delay);
	close(fd);
	for (i = 0; i < 4; i++) {
		pthread_join(s[i].thread, NULL);
		if (s[i].error != EIO && (err == EIO || err == EBADF))
			err = s[i].error;
	}
	return err;
}

/* Closing the channel wakes the threads that sleep in it. EBADF: one came when it was closed. */
static void close_wakes(void)
{
	int err = EBADF;

	for (unsigned int delay = 500000; err == EBADF && delay <= 8000000; delay *= 4)
		err = close_under_sleepers(delay);
	check(err == EIO, "closing the channel wakes its sleepers");
}

static int killed(int fd, void *arena)
{
	struct paracuda_ioctl_open o;
	char *p = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arena;
	fd = device();
	if (open_channel(fd, &o) || map(fd, (long)p, 8 << 20, PARACUDA_MAP_FLAG_WRITE))
		return 1;
	raise(SIGKILL);
	return 2;
}

static void kills(void)
{
	int i, bad = 0;

	for (i = 0; i < 20; i++)
		bad += run(killed, -1, NULL) != 1000 + SIGKILL;
	check(!bad, "processes killed with maps in flight give their channels back");
}

#include "faults.h"
#include "random.h"
#include "random_run.h"
#include "inputs.h"

static void all_checks(void)
{
	before_open();
	one_channel();
	vanishes();
	bounds();
	vouchers();
	close_wakes();
	kills();
	all_channels();
	handles();
	kills_of_handles();
	removals();
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	page = sysconf(_SC_PAGESIZE);
	if (argc < 2) {
		all_checks();
	} else if (!strcmp(argv[1], "faults")) {
		all_faults();
	} else if (!strcmp(argv[1], "random")) {
		all_random(argc > 2 ? strtoull(argv[2], NULL, 0) : (__u64)time(NULL),
			   argc > 3 ? strtoul(argv[3], NULL, 0) : 2000);
	} else if (!strcmp(argv[1], "leaks")) {
		sleep(6);	/* for what is younger than five seconds */
		leaks();
	} else if (!strcmp(argv[1], "inputs")) {
		all_inputs();
	} else {
		fputs("usage: paracuda-test [faults | random [SEED [REQUESTS]] | leaks | inputs]\n",
		      stderr);
		return 2;
	}
	printf("%s: %d checks failed\n", failures ? "FAILED" : "ok", failures);
	return failures != 0;
}
