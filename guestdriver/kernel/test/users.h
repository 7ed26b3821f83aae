/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: one user's share of a device, and what bounds a process besides. */

enum { ONE = 1000, OTHER = 1001 };

static void set_parameter(const char *name, const char *value)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/paracuda/parameters/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	check(write(fd, value, strlen(value)) > 0, path);
	close(fd);
}

static void expect_channels(int got, int want, const char *what)
{
	char line[200];

	snprintf(line, sizeof(line), "%s: %d channels, want %d", what, got, want);
	check(got == want, line);
}

/* Opens channels as a user until there is an error; returns how many, 100 more if it is another. */
static int take_channels(int uid, int error)
{
	struct paracuda_ioctl_open o;
	int n;

	if (setuid(uid))
		return 201;
	for (n = 0; n <= PARACUDA_MAX_CHANNELS; n++)
		if (open_channel(device(), &o))
			break;
	return errno == error ? n : 100 + n;
}

static int take_share(int uid, void *error)
{
	return take_channels(uid, *(int *)error);
}

/* Does so, tells how many, and keeps them until the pipe is closed. */
static pid_t keep_share(int uid, int tell, int until, int keeper)
{
	pid_t pid = fork();

	if (!pid) {
		unsigned char n = take_channels(uid, EDQUOT);

		close(keeper);
		if (write(tell, &n, 1) == 1 && read(until, &n, 1) <= 0)
			_exit(0);
		_exit(1);
	}
	return pid;
}

/* Writes to a file of a process's, as root. */
static int tell_process(pid_t pid, const char *file, const char *text)
{
	char path[100];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	err = write(fd, text, strlen(text)) != (ssize_t)strlen(text);
	close(fd);
	return err;
}

/* What follows has no error that a check could take for its own. */
#define NO_NAMESPACES 250

/* Opens channels as another user, in a user namespace of ONE's: rootless containers do that. */
static int take_in_namespace(int unused, void *ready)
{
	int *up = ready, down[2], status;
	char done = 1;
	pid_t pid;

	(void)unused;
	if (pipe2(down, O_CLOEXEC))
		return 201;
	pid = fork();
	if (!pid) {
		if (setuid(ONE) || unshare(CLONE_NEWUSER))
			done = 0;
		if (write(up[1], &done, 1) != 1 || !done)
			_exit(NO_NAMESPACES);
		close(down[1]);
		_exit(read(down[0], &done, 1) == 1 ? take_channels(1, EDQUOT) : 203);
	}
	if (read(up[0], &done, 1) == 1 && done &&
	    !tell_process(pid, "uid_map", "0 1000 1\n1 1001 1\n"))
		check(write(down[1], &done, 1) == 1, "a user namespace has its users");
	close(down[1]);
	close(down[0]);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ?
		       WEXITSTATUS(status) : 202;
}

static void share_in_namespaces(void)
{
	int up[2], got;

	if (pipe2(up, O_CLOEXEC)) {
		check(0, "pipe");
		return;
	}
	got = run(take_in_namespace, 0, up);
	if (got == NO_NAMESPACES)
		puts("skipped: this kernel has no user namespaces for users");
	else
		expect_channels(got, 0, "nobody's share more in a user namespace of his");
	close(up[0]);
	close(up[1]);
}

static void shares_of_channels(int channels)
{
	int share = (channels * 75 + 99) / 100, busy = EBUSY, quota = EDQUOT, up[2], down[2];
	unsigned char n = 0;
	pid_t pid;

	if (pipe2(up, O_CLOEXEC) || pipe2(down, O_CLOEXEC)) {
		check(0, "pipe");
		return;
	}
	pid = keep_share(ONE, up[1], down[0], down[1]);
	check(read(up[0], &n, 1) == 1, "a user opens channels");
	expect_channels(n, share, "a user's share, then EDQUOT");
	share_in_namespaces();
	expect_channels(run(take_share, OTHER, &busy), channels - share,
			"another's rest, then EBUSY");
	close(down[1]);
	check(waitpid(pid, NULL, 0) == pid, "the first one ends");
	expect_channels(run(take_share, OTHER, &quota), share, "the other's share then");
	set_parameter("user_share", "100");
	expect_channels(run(take_share, ONE, &busy), channels, "all, for who may");
	set_parameter("user_share", "0");
	expect_channels(run(take_share, ONE, &quota), 1, "one in any case");
	set_parameter("user_share", "75");
	close(up[0]);
	close(up[1]);
	close(down[0]);
}

struct pins {
	int first, then;	/* MiB */
	int flags;
	rlim_t locked;
};

/* Maps twice as a user. Returns the errors' sum: one of them alone is to fail. */
static int take_pins(int uid, void *arg)
{
	const struct pins *pins = arg;
	struct rlimit limit = { pins->locked, pins->locked };
	struct paracuda_ioctl_open o;
	char *p = memory(20 * MIB);
	int fd = device(), error;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setuid(uid) || open_channel(fd, &o))
		return 201;
	error = map(fd, (long)p, pins->first * MIB, pins->flags) ? errno : 0;
	return error + (map(fd, (long)p, pins->then * MIB, pins->flags) ? errno : 0);
}

static void expect_pins(int uid, int error, struct pins pins, const char *what)
{
	char line[200];
	int got = -1;

	/* A channel ends behind the scenes, and its pins with it. */
	for (int i = 0; i < 2000 && got != error; i++) {
		got = run(take_pins, uid, &pins);
		if (got != error)
			usleep(10000);
	}
	snprintf(line, sizeof(line), "%s: error %d, want %d", what, got, error);
	check(got == error, line);
}

static void shares_of_pins(void)
{
	limit_pins("16");
	expect_pins(ONE, 0, (struct pins){ 6, 6, STAY, RLIM_INFINITY }, "a user pins his share");
	expect_pins(ONE, ENOMEM, (struct pins){ 6, 7, STAY, RLIM_INFINITY }, "and no more");
	expect_pins(ONE, EBUSY, (struct pins){ 6, 7, PASS, RLIM_INFINITY },
		    "or waits for his copies");
	expect_pins(0, 0, (struct pins){ 6, 7, STAY, RLIM_INFINITY }, "root pins more");
	limit_pins("0");
}

static unsigned long pinned_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long n = -1;
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %lu", &n);
	if (f)
		fclose(f);
	return n;
}

static struct rlimit limit_of_first_process(struct rlimit new)
{
	struct rlimit old = {};

	check(!prlimit(1, RLIMIT_MEMLOCK, &new, &old), "the first process gets another limit");
	return old;
}

static void limits_of_locked_memory(void)
{
	struct rlimit first;

	expect_pins(ONE, 0, (struct pins){ 2, 2, STAY, 4 * MIB }, "memory that may be locked");
	expect_pins(ONE, ENOMEM, (struct pins){ 2, 3, STAY, 4 * MIB }, "and more than that");
	expect_pins(ONE, 0, (struct pins){ 2, 3, PASS, MIB }, "which copies don't count for");
	expect_pins(0, 0, (struct pins){ 2, 3, STAY, MIB }, "nor root");
	expect_pins(ONE, 0, (struct pins){ 6, 6, STAY, 8 * MIB }, "nor the kernel's own limit");
	first = limit_of_first_process((struct rlimit){ 4 * MIB, 4 * MIB });
	expect_pins(ONE, 0, (struct pins){ 2, 3, STAY, 4 * MIB }, "nor the first process's");
	expect_pins(ONE, ENOMEM, (struct pins){ 2, 3, STAY, 3 * MIB }, "but any other");
	limit_of_first_process(first);

	set_parameter("heed_memlock", "Y");
	expect_pins(ONE, ENOMEM, (struct pins){ 6, 6, STAY, 8 * MIB }, "each limit is heeded");
	set_parameter("heed_memlock", "N");
	expect_pins(ONE, 0, (struct pins){ 2, 2, STAY, MIB }, "no limit is heeded");
	set_parameter("heed_memlock", "auto");
}

static void locked_memory(void)
{
	struct paracuda_ioctl_open o;
	char *p = memory(4 * MIB);
	int fd = device();

	expect(open_channel(fd, &o), 0, "OPEN");
	expect(map(fd, (long)p, 2 * MIB, STAY), 0, "MAP that stays");
	expect(map(fd, (long)p, MIB, PASS), 0, "MAP for a copy");
	check(pinned_kib() == 2048, "what stays pinned counts for the process");
	close(fd);
	munmap(p, 4 * MIB);
	for (int i = 0; i < 1000 && pinned_kib(); i++)
		usleep(10000);
	check(pinned_kib() == 0, "until its channel ends");

	limits_of_locked_memory();
}

static void users(int channels)
{
	shares_of_channels(channels);
	shares_of_pins();
	locked_memory();
}
