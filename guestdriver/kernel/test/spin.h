/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: waits that keep the processor. */

#define SPIN_SLOT (PARACUDA_SLOTS + (PARACUDA_SLOT_COUNT - 2) * PARACUDA_SLOT_BYTES)

static int poll_word(int fd, __u32 offset, __u32 value, __u64 timeout_ns)
{
	struct paracuda_ioctl_wait w = { offset, value, timeout_ns };

	return ioctl(fd, PARACUDA_IOC_POLL, &w);
}

/*
 * Polls until it ends otherwise than because something else was to run, which may be at any time,
 * or, without a limit, because the driver saw fit: the error, or 0. Something else may be to run so
 * often that no single POLL reaches its limit.
 */
static int poll_alone(int fd, __u64 timeout_ns)
{
	double begin = now();

	while (now() - begin < 20) {
		if (!poll_word(fd, SPIN_SLOT, 0, timeout_ns))
			return 0;
		if (errno != EAGAIN && (errno != ETIMEDOUT || timeout_ns))
			break;
	}
	return errno;
}

struct change {
	pthread_t thread;
	char *arena;
};

static void *change(void *arg)
{
	struct change *c = arg;

	usleep(20000);
	__atomic_store_n((__u32 *)(c->arena + SPIN_SLOT), 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *busy(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

/* Somebody else wants the processor for as long as this polls. */
static void contended(int fd)
{
	pthread_t thread;
	cpu_set_t all, one;
	int stop = 0, err = ETIMEDOUT;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	check(!sched_setaffinity(0, sizeof(one), &one), "one processor");
	pthread_create(&thread, NULL, busy, &stop);
	usleep(1000);
	/* The other thread may come too late for a POLL if the host is busy. */
	for (int i = 0; i < 3 && err == ETIMEDOUT; i++)
		err = poll_word(fd, SPIN_SLOT, 1, 0) ? errno : 0;
	check(err == EAGAIN, "POLL leaves the processor to another thread that is to run");
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(all), &all);
}

/* Whether the kernel is of another preemption now ("voluntary", "full", "lazy"), if it can be. */
static int preempt(const char *mode)
{
	int fd, ok;

	mkdir("/sys/kernel/debug", 0755);
	mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	fd = open("/sys/kernel/debug/sched/preempt", O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, mode, strlen(mode)) > 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* A kernel that is preemptible switches without asking. */
static void preemptible(int fd)
{
	if (preempt("full"))
		contended(fd);
	else
		printf("the kernel is not preemptible\n");
	if (preempt("lazy"))
		contended(fd);
	preempt("voluntary");
}

static void polls(int fd, char *arena, const struct paracuda_ioctl_open *o)
{
	struct change c = { .arena = arena };
	double t;

	expect(poll_word(fd, o->arena_bytes, 0, 1), EINVAL, "POLL past the arena");
	expect(poll_word(fd, SPIN_SLOT + 2, 0, 1), EINVAL, "POLL on half a word");
	expect(poll_word(fd, SPIN_SLOT, 77, 0), 0, "POLL on a word that differs");
	t = now();
	check(poll_alone(fd, 100 * 1000) == ETIMEDOUT, "POLL with a limit");
	check(now() - t >= 0.0001, "POLL doesn't end before its limit");
	ualarm(50000, 50000);
	check(poll_alone(fd, 0) == EINTR, "POLL and a signal");
	ualarm(0, 0);
	pthread_create(&c.thread, NULL, change, &c);
	check(poll_alone(fd, 0) == 0, "POLL until the word changes");
	pthread_join(c.thread, NULL);
	contended(fd);
	preemptible(fd);
}
