/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: handles, by which objects outlive the channel that they are from. */

/* Commands of objects (gpubackend/api/cuda.def). */
enum { MEM_CREATE = 612, MEM_EXPORT = 617, MEM_IMPORT = 618 };

/* A channel with a worker that has greeted. */
struct channel {
	int fd;
	char *arena;
	__u32 seq;
};

/* Sends a command, and waits for its answer: the result, or -1. */
static int command(struct channel *c, int op, int words, const __u64 *word, __u64 *out)
{
	struct paracuda_arena_header *h = (void *)c->arena;
	volatile struct paracuda_slot *slot = (void *)(c->arena + PARACUDA_SLOTS);
	struct paracuda_command m = {
		.op = op, .flags = PARACUDA_COMMAND_FLAG_REPLY, .size = sizeof(m) + 8 * words,
		.seq = ++c->seq,
	};
	char *at = c->arena + PARACUDA_RING + h->appended % PARACUDA_RING_BYTES;

	memcpy(at, &m, sizeof(m));
	memcpy(at + sizeof(m), word, 8 * words);
	__atomic_store_n(&h->appended, h->appended + m.size, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 100000 && slot->done != c->seq; i++) {
		ioctl(c->fd, PARACUDA_IOC_KICK);
		usleep(100);
	}
	if (slot->done != c->seq)
		return -1;
	if (out)
		*out = slot->word[0];
	return slot->result;
}

/* Greets the worker of a channel that is open: 0, or -1. */
static int hello(struct channel *c, size_t arena_bytes)
{
	__u64 bulk = (__u64)PARACUDA_BUFFER_BULK << 56 | PARACUDA_BULK;
	__u64 words[] = { 0, 0, bulk, 65536 };

	c->seq = 0;
	c->arena = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (c->arena == MAP_FAILED)
		return -1;
	return command(c, PARACUDA_OP_HELLO, 4, words, NULL) ? -1 : 0;
}

static void greet(struct channel *c)
{
	struct paracuda_ioctl_open o;

	c->fd = device();
	expect(open_channel(c->fd, &o), 0, "OPEN");
	check(!hello(c, o.arena_bytes), "the worker greets");
}

static int export(int fd, __u32 object)
{
	struct paracuda_ioctl_export e = { .object = object, .fd = -1 };

	return ioctl(fd, PARACUDA_IOC_EXPORT, &e) ? -1 : e.fd;
}

static int import(int fd, int handle, __u32 *object)
{
	struct paracuda_ioctl_import i = { .fd = handle };
	int rc = ioctl(fd, PARACUDA_IOC_IMPORT, &i);

	*object = i.object;
	return rc;
}

/* Gives a handle of new memory: its number as the worker offers it. */
static __u32 offer(struct channel *c)
{
	__u64 memory = 0, number = 0, create[] = { 2 << 20, 0, 0 };

	check(!command(c, MEM_CREATE, 3, create, &memory), "memory is made");
	check(!command(c, MEM_EXPORT, 1, &memory, &number), "memory is offered");
	return number;
}

static void wrong_handles(struct channel *c)
{
	__u32 object;
	int null = open("/dev/null", O_RDWR);

	expect(ioctl(c->fd, PARACUDA_IOC_EXPORT, NULL), EFAULT, "EXPORT without an argument");
	expect(ioctl(c->fd, PARACUDA_IOC_IMPORT, 16), EFAULT, "IMPORT without an argument");
	expect(export(c->fd, 12345), ENOENT, "EXPORT of what isn't offered");
	expect(import(c->fd, -1, &object), EBADF, "IMPORT of no file");
	expect(import(c->fd, 999, &object), EBADF, "IMPORT of a file that isn't open");
	expect(import(c->fd, null, &object), EINVAL, "IMPORT of another file");
	expect(import(c->fd, c->fd, &object), EINVAL, "IMPORT of the device");
	close(null);
}

/* As many handles as the host gives, which it takes back when they are closed. */
static void many_handles(struct channel *c, __u32 number)
{
	static int handle[5000];
	int n = 0, bad = 0, error;
	struct rlimit all = { 6000, 6000 }, few = { 3, 6000 };

	if (setrlimit(RLIMIT_NOFILE, &all)) {
		check(0, "many files can be open");
		return;
	}
	while (n < 5000 && (handle[n] = export(c->fd, number)) >= 0)
		n++;
	error = n < 5000 ? errno : 0;
	check(error == ENOSPC && n >= 1000, "the number of handles is bounded, by ENOSPC");
	if (error != ENOSPC || n < 1000)
		printf("%d handles, then %s\n", n, error ? strerrorname_np(error) : "still more");
	for (int i = 0; i < n; i++) {
		close(handle[i]);
		handle[i] = export(c->fd, number);
		bad += handle[i] < 0;
	}
	check(!bad, "closed handles don't count, though the host is told of them later");
	while (n)
		close(handle[--n]);
	handle[0] = export(c->fd, number);
	check(handle[0] >= 0, "all closed handles are given back");
	close(handle[0]);
	setrlimit(RLIMIT_NOFILE, &few);
	expect(export(c->fd, number), EMFILE, "EXPORT with no room for a file");
	setrlimit(RLIMIT_NOFILE, &all);
}

/* A handle holds its object as long as any process has it, even without the channel it is from. */
static void handles(void)
{
	struct channel one, other;
	__u32 object = 0, number;
	__u64 word;
	char b[8];
	int fd, copy;

	greet(&one);
	wrong_handles(&one);
	number = offer(&one);
	many_handles(&one, number);
	fd = export(one.fd, number);
	check(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC, "a handle is closed on exec");
	check(mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED, "a handle has no mmap");
	check(read(fd, b, sizeof(b)) < 0 && write(fd, b, sizeof(b)) < 0,
	      "nor can it be read or written");
	expect(ioctl(fd, PARACUDA_IOC_KICK), ENOTTY, "a handle is no channel");
	close(one.fd);

	greet(&other);
	copy = dup(fd);
	close(fd);
	expect(import(other.fd, copy, &object), 0, "IMPORT when its channel is gone");
	word = object;
	check(!command(&other, MEM_IMPORT, 1, &word, &word), "the worker has the object");
	word = object;
	check(command(&other, MEM_IMPORT, 1, &word, &word) == 1, "but not twice");
	close(copy);
	expect(import(other.fd, copy, &object), EBADF, "IMPORT of a handle that was closed");
	/* A child that inherits a handle has no channel. */
	fd = export(other.fd, offer(&other));
	if (!fork())
		_exit(import(other.fd, fd, &object) < 0 && errno == EPERM ? 0 : 1);
	wait(&copy);
	check(WIFEXITED(copy) && !WEXITSTATUS(copy), "a child can't use its parent's channel");
	close(other.fd);
	close(fd);
}

/* Processes that are killed while they export and import. */
static void kills_of_handles(void)
{
	struct channel c;

	for (int round = 0; round < 20; round++) {
		pid_t pid = fork();

		if (!pid) {
			__u32 number, object;

			fclose(stdout);
			greet(&c);
			number = offer(&c);
			for (;;)
				import(c.fd, export(c.fd, number), &object);
		}
		usleep(200000 + 1000 * round);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	greet(&c);
	int fd = export(c.fd, offer(&c));

	check(fd >= 0, "EXPORT after processes were killed in it");
	close(fd);
	close(c.fd);
}
