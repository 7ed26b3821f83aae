/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: what a process may have of a queue, and of the guest's memory. */

#define MIB (1UL << 20)
#define STAY PARACUDA_MAP_FLAG_WRITE
#define PASS (PARACUDA_MAP_FLAG_WRITE | PARACUDA_MAP_FLAG_ONESHOT)

static char *memory(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Maps a page that is to stay. A queue is full until the worker has taken what it holds. */
static int map_stay(int fd, char *p)
{
	int err;

	while ((err = map(fd, (long)p, page, STAY)) && errno == EAGAIN)
		usleep(100);
	return err;
}

/* Sets how much may be pinned, in MiB (0: half of RAM). */
static void limit_pins(const char *mib)
{
	int fd = open("/sys/module/paracuda/parameters/max_pinned_mb", O_WRONLY | O_CLOEXEC);

	check(write(fd, mib, strlen(mib)) > 0, "the limit of pinned memory can be set");
	close(fd);
}

/* Maps by a child of its own, as another process would. */
static int map_elsewhere(int flags, void *at)
{
	struct paracuda_ioctl_open o;
	int fd = device();

	if (open_channel(fd, &o))
		return -1;
	return map(fd, (long)at, 6 * MIB, flags) ? errno : 0;
}

/* Waits until little is pinned: a channel ends behind the scenes. */
static void settle(void *at)
{
	limit_pins("16");
	for (int i = 0; i < 1000 && run(map_elsewhere, PASS, at); i++)
		usleep(10000);
	limit_pins("0");
}

/* Nobody gives these maps back: to try again is of no use. A queue holds few, the worker many. */
static void full_queue(void)
{
	struct paracuda_ioctl_open o;
	int fd = device(), n = 0, copies = 0, tries, err;
	char *p = memory(6 * MIB), line[100];

	expect(open_channel(fd, &o), 0, "OPEN");
	while (n <= PARACUDA_KEPT_MAPS && !map_stay(fd, p))
		n++;
	snprintf(line, sizeof(line), "MAP after %d that stay", n);
	expect(-1, ENOSPC, line);
	check(n == PARACUDA_KEPT_MAPS, "a worker keeps as many maps as the protocol says");
	/* No command refers to these, so they don't come back, but could. */
	for (tries = 0; copies < 10000 && tries < 1000; tries += err) {
		err = !!map(fd, (long)p, page, PASS);
		copies += !err;
		if (err && (errno != EAGAIN || copies >= 200))
			break;
		if (err)	/* the last of those that stay are on their way back */
			usleep(1000);
	}
	snprintf(line, sizeof(line), "oneshot MAP after %d more", copies);
	expect(copies < 10000 ? -1 : 0, EAGAIN, line);
	check(copies >= 200, "maps that stay take no room from copies");
	close(fd);
	settle(p);
	munmap(p, 6 * MIB);
}

/* Maps what there is room for once the channels before have ended, which takes its time. */
static int map_at_last(int fd, char *p, int flags)
{
	int err = -1;

	for (int i = 0; i < 6000; i++) {
		err = map(fd, (long)p, 6 * MIB, flags);
		if (!err || errno != EBUSY)
			break;
		usleep(10000);
	}
	return err;
}

static void full_memory(void)
{
	struct paracuda_ioctl_open o;
	char *p = memory(20 * MIB);
	int fd = device();

	expect(open_channel(fd, &o), 0, "OPEN");
	limit_pins("16");
	expect(map(fd, (long)p, 17 * MIB, PASS), ENOMEM, "MAP of more than may be pinned");
	expect(map_at_last(fd, p, PASS), 0, "MAP for a copy");
	expect(map_at_last(fd, p, STAY), 0, "MAP that stays");
	expect(map(fd, (long)p, 6 * MIB, PASS), EBUSY, "MAP when a copy has the memory");
	check(run(map_elsewhere, PASS, p) == EBUSY, "another process's copy waits for it");
	check(run(map_elsewhere, STAY, p) == EBUSY, "and so does what is to stay");
	expect(map(fd, (long)p, 11 * MIB, PASS), ENOMEM, "MAP of more than the copy has");
	close(fd);
	/* A channel ends behind the scenes. */
	for (int i = 0; i < 1000 && run(map_elsewhere, PASS, p); i++)
		usleep(10000);
	check(run(map_elsewhere, STAY, p) == 0, "a channel that ends gives its memory back");
	limit_pins("0");
	munmap(p, 20 * MIB);
}

/* Memory that counts for this process when the kernel looks for one to end. */
static size_t resident(void)
{
	char line[200] = "";
	size_t pages = 0;
	char *p = memory(MIB);
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	/* Some kernels count late: at one of the next faults. */
	memset(p, 1, MIB);
	munmap(p, MIB);

	if (read(fd, line, sizeof(line) - 1) > 0)
		sscanf(line, "%*u %zu", &pages);
	close(fd);
	return pages * page;
}

static char *host_memory(int fd, size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PARACUDA_HOST_MEMORY);
}

/* Memory for cuMemHostAlloc that isn't pinned counts for the process, or is bounded. */
static void host_memories(void)
{
	struct paracuda_ioctl_open o;
	size_t before = resident();
	int fd = device(), n;
	char *p[4];

	expect(open_channel(fd, &o), 0, "OPEN");
	limit_pins("16");
	check(host_memory(fd, 17 * MIB) == MAP_FAILED && errno == ENOMEM,
	      "no host memory that can't be pinned");
	for (n = 0; n < 4 && (p[n] = host_memory(fd, 6 * MIB)) != MAP_FAILED; n++)
		;
	check(n >= 2, "host memory");
	check(n == 2 || resident() - before >= n * 5 * MIB, "host memory counts, or is bounded");
	munmap(p[0], 3 * MIB);
	munmap(p[0] + 3 * MIB, 3 * MIB);
	p[0] = host_memory(fd, 6 * MIB);
	check(p[0] != MAP_FAILED, "host memory again, when some was given back");
	while (n)
		munmap(p[--n], 6 * MIB);
	limit_pins("0");
	close(fd);
}

/* Channels that end while their arenas stay mapped. */
static int hoard(int channels, void *unused)
{
	struct paracuda_ioctl_open o;
	int n, fd;

	(void)unused;
	for (n = 0; n <= 2 * channels; n++) {
		fd = device();
		if (open_channel(fd, &o))
			break;
		if (mmap(NULL, o.arena_bytes, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
			return 1;
		close(fd);
	}
	return n == 2 * channels && errno == EBUSY ? 0 : 2;
}

static void hoards(int channels)
{
	struct paracuda_ioctl_open o;
	int fd = device();

	check(run(hoard, channels, NULL) == 0, "arenas of ended channels are bounded, by EBUSY");
	expect(open_channel(fd, &o), 0, "OPEN when the process that had them has ended");
	close(fd);
}

static void bounds(void)
{
	full_queue();
	full_memory();
	host_memories();
}
