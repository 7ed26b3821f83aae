/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: the threads and processes of random.h, and what must hold at the end. */

/* Some more often than others: what sets up and takes away in the same measure as it is used. */
static enum random_action random_choice(struct random_thread *r)
{
	static const enum random_action often[] = {
		RANDOM_OPEN, RANDOM_AREA, RANDOM_HOST, RANDOM_ARENA, RANDOM_MAP, RANDOM_MAP,
		RANDOM_MAP, RANDOM_WAIT, RANDOM_POLL, RANDOM_KICK, RANDOM_EXPORT, RANDOM_EXPORT,
		RANDOM_IMPORT,
	};

	if (one_in(r, 4))
		return below(r, RANDOM_ACTIONS);
	return often[below(r, sizeof(often) / sizeof(often[0]))];
}

/* Has the nth allocation of this thread's next request fail; 0: none. Whether the last one did. */
static int random_fault(struct random_thread *r, int n)
{
	char text[16] = "", was[16] = "";
	int bytes = snprintf(text, sizeof(text), "%d", n);

	if (!n && pread(r->faults, was, sizeof(was) - 1, 0) <= 0)
		return 0;
	if (pwrite(r->faults, text, bytes, 0) != bytes)
		return 0;
	return !n && atoi(was) == 0;
}

/* One request, for which there may be too little memory. Returns what it does, and sets errno. */
static int random_request(struct random_thread *r, enum random_action a)
{
	int rc, error;

	/* A command is copied to where there may be nothing, and is no request. */
	r->lacks = one_in(r, 4) && r->faults >= 0 && a != RANDOM_COMMAND;
	if (r->lacks)
		random_fault(r, 1 + below(r, 40));
	rc = act(r, a);
	error = errno;
	if (r->lacks && random_fault(r, 0))
		__atomic_fetch_add(&random_counts->faults, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&mine.requests, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&random_counts->all, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&random_counts->tried[a], 1, __ATOMIC_RELAXED);
	if (!rc)
		__atomic_fetch_add(&random_counts->done[a], 1, __ATOMIC_RELAXED);
	errno = error;
	return rc;
}

static void random_open_faults(struct random_thread *r)
{
	r->faults = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
}

static void *random_thread(void *arg)
{
	struct random_thread *r = arg;

	random_open_faults(r);
	for (;;)
		random_request(r, random_choice(r));
	return NULL;
}

/* A channel whose worker has greeted and offers an object, if there is one to have. */
static void random_channel(void)
{
	struct paracuda_ioctl_open o;
	struct channel c = { .fd = open(PARACUDA_DEVICE, O_RDWR | O_CLOEXEC) };

	if (c.fd < 0 || open_channel(c.fd, &o) || hello(&c, o.arena_bytes))
		return;
	mine.arena_bytes = o.arena_bytes;
	mine.number = offer(&c);
	put_file(&mine.file[0], c.fd);
	if (mine.wild)
		mremap(c.arena, RANDOM_AREA_BYTES, RANDOM_AREA_BYTES,
		       MREMAP_MAYMOVE | MREMAP_FIXED, mine.area[0]);
}

/* What a process's threads begin with. */
static void random_begin(void)
{
	int i;

	for (i = 0; i < RANDOM_AREAS; i++)
		mine.area[i] = memory(RANDOM_AREA_BYTES);
	for (i = 0; i < RANDOM_FILES; i++)
		mine.file[i] = open(PARACUDA_DEVICE, O_RDWR | O_CLOEXEC);
	memset(mine.handle, -1, sizeof(mine.handle));
}

static int random_scratch(void)
{
	return memfd_create("scratch", MFD_CLOEXEC);
}

/* Threads at work, until they have asked often enough or somebody kills this process. */
static void random_process(__u64 seed, unsigned int number)
{
	static struct random_thread r[RANDOM_THREADS];
	struct sigaction sa = { .sa_handler = on_alarm };
	unsigned long life;
	int i;

	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	sigaction(SIGALRM, &sa, NULL);
	for (i = 0; i < RANDOM_THREADS; i++) {
		r[i].state = seed ^ (__u64)number << 32 ^ (__u64)i << 24;
		r[i].scratch = random_scratch();
	}
	mine.wild = number % 2;
	random_begin();
	random_channel();
	if (one_in(&r[0], 4) && setuid(ONE + below(&r[0], 2)))
		_exit(1);
	life = 20 + below(&r[0], 2000);
	for (i = 0; i < RANDOM_THREADS; i++)
		pthread_create(&r[i].thread, NULL, random_thread, &r[i]);
	while (__atomic_load_n(&mine.requests, __ATOMIC_RELAXED) < life) {
		usleep(10000);
		pthread_kill(r[below(&r[0], RANDOM_THREADS)].thread, SIGALRM);
	}
	_exit(0);
}

/* Looks which of the processes have ended: returns how many. */
static int random_reap(pid_t *pids)
{
	int i, n = 0;

	for (i = 0; i < RANDOM_PROCESSES; i++) {
		if (pids[i] > 0 && waitpid(pids[i], NULL, WNOHANG) == pids[i]) {
			pids[i] = 0;
			n++;
		}
	}
	return n;
}

static void random_kill(pid_t pid)
{
	if (pid > 0)
		kill(pid, SIGKILL);
}

/* Ends all processes: returns how many there were that could be ended. */
static int random_end(pid_t *pids)
{
	double end = now() + RANDOM_END;
	int i, n = 0, left = 0;

	for (i = 0; i < RANDOM_PROCESSES; i++) {
		left += pids[i] > 0;
		random_kill(pids[i]);
	}
	while (n < left && now() < end) {
		n += random_reap(pids);
		usleep(10000);
	}
	return n;
}

/* Bounds that change while there are processes that have more. */
static void random_bounds(struct random_thread *r)
{
	char mib[16], share[16];

	snprintf(mib, sizeof(mib), "%u", one_in(r, 2) ? 0 : 1 + below(r, 64));
	snprintf(share, sizeof(share), "%u", below(r, 110));
	if (write_file("/sys/module/paracuda/parameters/max_pinned_mb", mib) ||
	    write_file("/sys/module/paracuda/parameters/user_share", share))
		check(0, "the driver's bounds can be set");
}

/* What has to succeed at times, or nothing is tried. */
static const enum random_action random_must[] = {
	RANDOM_OPEN, RANDOM_ARENA, RANDOM_HOST, RANDOM_MAP, RANDOM_WAIT, RANDOM_POLL, RANDOM_KICK,
	RANDOM_EXPORT, RANDOM_IMPORT
};
#define RANDOM_MUST (sizeof(random_must) / sizeof(random_must[0]))

/* Whether there were so many requests and all that must has succeeded, if it ever does. */
static int random_enough(unsigned long requests)
{
	unsigned long all = __atomic_load_n(&random_counts->all, __ATOMIC_RELAXED);
	size_t i;

	for (i = 0; i < RANDOM_MUST && random_counts->done[random_must[i]]; i++)
		;
	return all >= requests && (i == RANDOM_MUST || all >= 20 * requests + 20000);
}

/* Has processes begin and end, some of them killed, until there were so many requests. */
static void random_processes(__u64 seed, unsigned long requests)
{
	struct random_thread r = { .state = seed };
	pid_t pids[RANDOM_PROCESSES] = { 0 };
	unsigned int number = 0, ended = 0;
	double told = now();
	char line[100];
	int i;

	while (!random_enough(requests)) {
		for (i = 0; i < RANDOM_PROCESSES; i++) {
			if (pids[i] > 0)
				continue;
			number++;
			fflush(stdout);
			pids[i] = fork();
			if (!pids[i])
				random_process(seed, number);
			if (pids[i] < 0)
				number--;
		}
		usleep(50000);
		if (one_in(&r, 16))
			random_kill(pids[below(&r, RANDOM_PROCESSES)]);
		if (one_in(&r, 16))
			random_bounds(&r);
		ended += random_reap(pids);
		if (now() > told + 30) {
			told = now();
			printf("%u processes and %lu requests so far\n", number,
			       random_counts->all);
		}
	}
	ended += random_end(pids);
	snprintf(line, sizeof(line), "%u of %u processes have ended", ended, number);
	check(ended == number, line);
	set_parameter("max_pinned_mb", "0");
	set_parameter("user_share", "75");
}

static void random_report(void)
{
	char line[100];
	size_t i;

	for (i = 0; i < RANDOM_ACTIONS; i++)
		printf("%-20s %8lu times, %8lu succeeded\n", random_names[i],
		       random_counts->tried[i], random_counts->done[i]);
	printf("%lu allocations failed\n", random_counts->faults);
	for (i = 0; i < RANDOM_MUST; i++) {
		snprintf(line, sizeof(line), "%s succeeded at times",
			 random_names[random_must[i]]);
		check(random_counts->done[random_must[i]], line);
	}
}

/* Channels that can be opened at once. */
static int free_channels(void)
{
	int fds[PARACUDA_MAX_CHANNELS + 1], n = fill(fds, PARACUDA_MAX_CHANNELS + 1), i;

	for (i = 0; i <= n && i <= PARACUDA_MAX_CHANNELS; i++)
		close(fds[i]);
	return n;
}

/* Counts, and faults if the kernel has any. */
static void random_prepare(void)
{
	random_counts = mmap(NULL, sizeof(*random_counts), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!access("/proc/thread-self/fail-nth", W_OK) && prepare_faults())
		check(0, "the kernel can be made to fail");
}

/* The driver is as it was before anybody asked for anything. */
static void random_settled(int channels)
{
	struct channel c;

	expect_channels(free_channels(), channels, "all channels are free again");
	greet(&c);
	check(export(c.fd, offer(&c)) >= 0, "a worker's object can be exported afterwards");
	close(c.fd);
}

static void all_random(__u64 seed, unsigned long requests)
{
	int channels = free_channels();

	printf("seed %llu, %lu requests\n", (unsigned long long)seed, requests);
	random_prepare();
	random_processes(seed, requests);
	random_report();
	random_settled(channels);
}
