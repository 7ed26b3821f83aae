/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of paracuda-test.c: each request of the driver's, with each allocation of memory in it
 * failing once. For a kernel with CONFIG_FAULT_INJECTION, where /proc/thread-self/fail-nth says
 * which allocation of this thread's next system calls is to fail (Documentation/fault-injection).
 */

#define FAULTS_DEBUGFS "/sys/kernel/debug"
#define FAULTS_MOST 2000	/* allocations that a request makes, at the most */

/* One request. Made again and again, each time from the same state. */
struct faulty {
	const char *name;
	int needs_none;			/* it allocates nothing */
	int errors[4];			/* what it may fail with, beside ENOMEM */
	void (*prepare)(struct channel *c);	/* before the first one; may be NULL */
	int (*make)(struct channel *c);	/* the request alone: 0, or -1 and errno */
	void (*undo)(struct channel *c);	/* of one that has succeeded; may be NULL */
};

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ok;

	if (fd < 0)
		return -1;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok ? 0 : -1;
}

static int fail_nth_fd = -1;

/* Has the nth allocation from now on fail; 0: none. */
static void fail_nth(int n)
{
	char text[16];
	int bytes = snprintf(text, sizeof(text), "%d", n);

	if (pwrite(fail_nth_fd, text, bytes, 0) != bytes)
		check(0, "fail-nth is written");
}

/* Says whether the allocation was reached, and has no other fail. */
static int has_failed(void)
{
	char text[16] = "";

	if (pread(fail_nth_fd, text, sizeof(text) - 1, 0) <= 0)
		check(0, "fail-nth is read");
	fail_nth(0);
	return atoi(text) == 0;
}

static int may_fail_with(const struct faulty *f, int error)
{
	if (error == ENOMEM)
		return 1;
	for (int i = 0; i < 4; i++) {
		if (f->errors[i] && f->errors[i] == error)
			return 1;
	}
	return 0;
}

/* Makes a request without a fault, which must succeed whatever failed before. */
static void must_succeed(struct channel *c, const struct faulty *f, int n)
{
	char line[120];

	if (!f->make(c)) {
		if (f->undo)
			f->undo(c);
		return;
	}
	snprintf(line, sizeof(line), "%s after its allocation %d failed: %s", f->name, n,
		 strerrorname_np(errno));
	check(0, line);
}

/* Has each allocation of a request fail in turn, until there are no more. */
static void each_allocation(struct channel *c, const struct faulty *f)
{
	int n, rc, error, reached, refused = 0;
	char line[160];

	if (f->prepare)
		f->prepare(c);
	must_succeed(c, f, 0);	/* what is allocated for good is there from now on */
	for (n = 1; n < FAULTS_MOST; n++) {
		fail_nth(n);
		rc = f->make(c);
		error = errno;
		reached = has_failed();
		if (!rc && f->undo)
			f->undo(c);
		if (!reached)
			break;
		refused += rc != 0;
		if (rc && !may_fail_with(f, error)) {
			snprintf(line, sizeof(line), "%s, allocation %d: %s", f->name, n,
				 strerrorname_np(error));
			check(0, line);
		}
		must_succeed(c, f, n);
	}
	snprintf(line, sizeof(line), "%s: %d allocations failed in turn, %d times it was refused",
		 f->name, n - 1, refused);
	check(n < FAULTS_MOST && f->needs_none == !refused && f->needs_none == (n == 1), line);
}

/* What the requests below share. */
static struct {
	int fd;			/* a file beside the channel's */
	void *area;
	char *memory;		/* anonymous, of FAULTS_BYTES */
	__u32 number;		/* of an object that the worker offers */
	int handle;		/* of it: it is offered no more when the last handle goes */
	int other;		/* a second handle of it */
} faults;

#define FAULTS_BYTES (256UL * 4096)

static int fault_open_file(struct channel *c)
{
	(void)c;
	faults.fd = open(PARACUDA_DEVICE, O_RDWR | O_CLOEXEC);
	return faults.fd < 0 ? -1 : 0;
}

static void fault_close_file(struct channel *c)
{
	(void)c;
	close(faults.fd);
	faults.fd = -1;
}

/* A file for the next channel: there can't be two in one. */
static void fault_next_file(struct channel *c)
{
	(void)c;
	if (faults.fd >= 0)
		close(faults.fd);
	faults.fd = device();
}

static int fault_open_channel(struct channel *c)
{
	struct paracuda_ioctl_open o = { .version = PARACUDA_VERSION };

	(void)c;
	return ioctl(faults.fd, PARACUDA_IOC_OPEN, &o);
}

static int fault_host_memory(struct channel *c)
{
	faults.area = mmap(NULL, FAULTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd,
			   PARACUDA_HOST_MEMORY);
	return faults.area == MAP_FAILED ? -1 : 0;
}

static void fault_unmap(struct channel *c)
{
	(void)c;
	munmap(faults.area, FAULTS_BYTES);
}

/* Nothing refers to these maps: they go with their channel. */
static int fault_map(struct channel *c)
{
	return map(c->fd, (long)faults.memory, FAULTS_BYTES, STAY);
}

static int fault_oneshot(struct channel *c)
{
	return map(c->fd, (long)faults.memory, FAULTS_BYTES, PASS);
}

static int fault_wait(struct channel *c)
{
	return wait_word(c->fd, PARACUDA_SLOTS, -1, 0);
}

static int fault_kick(struct channel *c)
{
	return ioctl(c->fd, PARACUDA_IOC_KICK);
}

static int fault_export(struct channel *c)
{
	faults.other = export(c->fd, faults.number);
	return faults.other < 0 ? -1 : 0;
}

static void fault_close_handle(struct channel *c)
{
	(void)c;
	close(faults.other);
}

static int fault_import(struct channel *c)
{
	__u32 object;

	return import(c->fd, faults.handle, &object);
}

static void fault_offer(struct channel *c)
{
	faults.number = offer(c);
	faults.handle = export(c->fd, faults.number);
}

static const struct faulty requests[] = {
	{ "open", .errors = { ENFILE, EMFILE }, .make = fault_open_file, .undo = fault_close_file },
	{ "OPEN", .errors = { EAGAIN }, .prepare = fault_next_file, .make = fault_open_channel,
	  .undo = fault_next_file },
	{ "mmap of host memory", .errors = { EAGAIN }, .make = fault_host_memory,
	  .undo = fault_unmap },
	{ "MAP", .errors = { EFAULT, EAGAIN }, .make = fault_map },
	{ "oneshot MAP", .errors = { EFAULT, EAGAIN }, .make = fault_oneshot },
	{ "WAIT", .needs_none = 1, .make = fault_wait },
	{ "KICK", .needs_none = 1, .make = fault_kick },
	{ "EXPORT", .errors = { ENFILE, EAGAIN }, .prepare = fault_offer, .make = fault_export,
	  .undo = fault_close_handle },
	{ "IMPORT", .errors = { EAGAIN }, .make = fault_import },
};

/* Where allocations fail: whatever they are for, but nothing is told about each. */
static const char *const fault_settings[][2] = {
	{ FAULTS_DEBUGFS "/failslab/ignore-gfp-wait", "N" },
	{ FAULTS_DEBUGFS "/failslab/verbose", "0" },
	{ FAULTS_DEBUGFS "/fail_page_alloc/ignore-gfp-wait", "N" },
	{ FAULTS_DEBUGFS "/fail_page_alloc/ignore-gfp-highmem", "N" },
	{ FAULTS_DEBUGFS "/fail_page_alloc/min-order", "0" },
	{ FAULTS_DEBUGFS "/fail_page_alloc/verbose", "0" },
};

static int prepare_faults(void)
{
	size_t i;

	if (mount("none", FAULTS_DEBUGFS, "debugfs", 0, NULL) && errno != EBUSY) {
		perror("FAILED: mount debugfs");
		return -1;
	}
	for (i = 0; i < sizeof(fault_settings) / sizeof(fault_settings[0]); i++) {
		if (write_file(fault_settings[i][0], fault_settings[i][1])) {
			printf("FAILED: %s: %s: run it under the kernel of build-uml debug\n",
			       fault_settings[i][0], strerror(errno));
			return -1;
		}
	}
	fail_nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth_fd < 0)
		perror("FAILED: /proc/thread-self/fail-nth");
	return fail_nth_fd < 0 ? -1 : 0;
}

static void all_faults(void)
{
	struct channel c;
	size_t i;

	if (prepare_faults()) {
		check(0, "the kernel can be made to fail");
		return;
	}
	greet(&c);
	faults.fd = -1;
	faults.memory = memory(FAULTS_BYTES);
	memset(faults.memory, 1, FAULTS_BYTES);
	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		each_allocation(&c, &requests[i]);
	close(faults.handle);
	close(c.fd);
	munmap(faults.memory, FAULTS_BYTES);
}

/*
 * Prints what the kernel has found that nobody refers to any more: there must be nothing. Whose it
 * is isn't known in User Mode Linux, which notes no backtraces. What is younger than five seconds
 * isn't reported.
 */
static void leaks(void)
{
	const char *file = FAULTS_DEBUGFS "/kmemleak";
	char line[512];
	int lost = 0;
	FILE *f;

	for (int i = 0; i < 2; i++)
		check(!write_file(file, "scan"), "kmemleak looks");
	f = fopen(file, "re");
	check(f != NULL, "kmemleak tells");
	while (f && fgets(line, sizeof(line), f)) {
		fputs(line, stdout);
		lost += strstr(line, "unreferenced object") != NULL;
	}
	if (f)
		fclose(f);
	check(!lost, "no memory is lost");
}
