/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of paracuda-test.c: processes of several threads that ask the driver for anything at all, at
 * the same time, while they unmap what they ask about, close what they use, and are killed. Half of
 * them keep to the protocol with their worker, the others write what they like into their arenas.
 * Where the kernel can be made to fail (faults.h), some of the requests find no memory.
 */

#define RANDOM_PROCESSES	4
#define RANDOM_THREADS		4
#define RANDOM_FILES		4
#define RANDOM_AREAS		8
#define RANDOM_AREA_BYTES	(2 * MIB)
#define RANDOM_HANDLES		4
#define RANDOM_END		60	/* seconds in which a process that is killed ends */

enum random_action {
	RANDOM_OPEN_FILE, RANDOM_CLOSE, RANDOM_OPEN, RANDOM_ARENA, RANDOM_HOST, RANDOM_AREA,
	RANDOM_UNMAP, RANDOM_PROTECT, RANDOM_KICK, RANDOM_WAIT, RANDOM_POLL, RANDOM_MAP,
	RANDOM_EXPORT, RANDOM_IMPORT, RANDOM_STRANGE, RANDOM_COMMAND, RANDOM_FORK, RANDOM_ACTIONS
};

static const char *const random_names[RANDOM_ACTIONS] = {
	"open", "close", "OPEN", "mmap of an arena", "mmap of host memory", "mmap", "munmap",
	"mprotect", "KICK", "WAIT", "POLL", "MAP", "EXPORT", "IMPORT", "unknown request",
	"command", "fork"
};

/* How often each was tried, and has succeeded: of all processes. */
struct random_counts {
	unsigned long all, tried[RANDOM_ACTIONS], done[RANDOM_ACTIONS];
	unsigned long faults;
};

static struct random_counts *random_counts;

/* What the threads of a process share, and take from each other. */
static struct {
	int wild;
	unsigned long requests;			/* made so far */
	int file[RANDOM_FILES];			/* -1: none */
	int handle[RANDOM_HANDLES];
	char *area[RANDOM_AREAS];		/* places of RANDOM_AREA_BYTES, mapped or not */
	__u32 arena_bytes, number;
} mine;

struct random_thread {
	pthread_t thread;
	__u64 state;
	const unsigned char *input;	/* chooses instead of chance, if there is one (inputs.h) */
	size_t left;			/* bytes of it */
	int scratch;			/* a file between it and memory that may be gone */
	int faults;			/* this thread's fail-nth; -1: none */
	int lacks;			/* an allocation of the next request is to fail */
};

/* The next bytes of an input, as a number. There are zeros behind its end. */
static __u64 chosen(struct random_thread *r, unsigned int bytes)
{
	__u64 n = 0;

	for (; bytes && r->left; bytes--, r->left--)
		n = n << 8 | *r->input++;
	return n;
}

/* SplitMix64, if chance is to choose. */
static __u64 any(struct random_thread *r)
{
	__u64 z = r->state += 0x9e3779b97f4a7c15ULL;

	if (r->input)
		return chosen(r, sizeof(z));
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static unsigned int below(struct random_thread *r, unsigned int n)
{
	if (r->input)
		return chosen(r, n <= 1 << 8 ? 1 : n <= 1 << 16 ? 2 : 4) % n;
	return any(r) % n;
}

static int one_in(struct random_thread *r, unsigned int n)
{
	return !below(r, n);
}

/* Of any size, small ones as often as large ones. */
static __u64 any_number(struct random_thread *r)
{
	return any(r) >> below(r, 64);
}

static char *any_area(struct random_thread *r)
{
	return mine.area[below(r, RANDOM_AREAS)];
}

/* Mostly a place in one of the areas. */
static __u64 any_address(struct random_thread *r)
{
	switch (below(r, 12)) {
	case 0:
		return any_number(r);
	case 1:
		return -any_number(r);
	case 2:
		return (__u64)(unsigned long)&any;	/* code */
	case 3:
		return (__u64)(unsigned long)&mine;
	default:
		return (__u64)(unsigned long)any_area(r) + below(r, RANDOM_AREA_BYTES);
	}
}

static __u64 any_length(struct random_thread *r)
{
	return one_in(r, 8) ? any_number(r) : 1 + below(r, one_in(r, 2) ? 3 * page : MIB);
}

/*
 * An argument of a request: a good one, or an address where it is wholly or partly not there. The
 * latter not where memory is short: User Mode Linux faults by itself when it has none for a page
 * table under what it copies from (maybe_map() of arch/um follows a pointer that isn't there).
 */
static void *any_argument(struct random_thread *r, void *good)
{
	return !r->lacks && one_in(r, 16) ? (void *)(unsigned long)any_address(r) : good;
}

static int any_file(struct random_thread *r)
{
	return mine.file[below(r, RANDOM_FILES)];
}

/* Puts a descriptor into a place, and closes the one that was there. */
static void put_file(int *place, int fd)
{
	int old = __atomic_exchange_n(place, fd, __ATOMIC_RELAXED);

	if (old >= 0)
		close(old);
}

/* Writes where there may be nothing: that is an error then, not a signal. */
static int poke(struct random_thread *r, void *at, const void *from, size_t bytes)
{
	return pwrite(r->scratch, from, bytes, 0) == (ssize_t)bytes &&
	       pread(r->scratch, at, bytes, 0) == (ssize_t)bytes ? 0 : -1;
}

static int random_open_file(struct random_thread *r)
{
	int fd = open(PARACUDA_DEVICE, O_RDWR | O_CLOEXEC);

	put_file(&mine.file[below(r, RANDOM_FILES)], fd);
	return fd < 0 ? -1 : 0;
}

static int random_open(struct random_thread *r)
{
	struct paracuda_ioctl_open o = {
		.version = one_in(r, 16) ? any_number(r) : PARACUDA_VERSION
	};
	int rc = ioctl(any_file(r), PARACUDA_IOC_OPEN, any_argument(r, &o));

	if (!rc && o.arena_bytes)
		mine.arena_bytes = o.arena_bytes;
	return rc;
}

/* Maps an arena. What is around its ring becomes an area, if all of that is still there then. */
static int random_arena(struct random_thread *r)
{
	size_t bytes = one_in(r, 8) ? any_length(r) : mine.arena_bytes;
	int flags = one_in(r, 8) ? MAP_PRIVATE : MAP_SHARED;
	off_t offset = one_in(r, 8) ? (off_t)(any_number(r) & -page) : 0;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, any_file(r), offset);

	if (p == MAP_FAILED)
		return -1;
	if (one_in(r, 4))
		munmap(p + below(r, bytes / page + 1) * page, page);
	if (bytes >= RANDOM_AREA_BYTES)
		mremap(p, RANDOM_AREA_BYTES, RANDOM_AREA_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
		       any_area(r));
	munmap(p, bytes);
	return 0;
}

static int random_host(struct random_thread *r)
{
	size_t bytes = one_in(r, 8) ? 1 + below(r, RANDOM_AREA_BYTES) : RANDOM_AREA_BYTES;
	int flags = one_in(r, 8) ? MAP_PRIVATE : MAP_SHARED;
	char *p = mmap(any_area(r), bytes, PROT_READ | PROT_WRITE, MAP_FIXED | flags, any_file(r),
		       PARACUDA_HOST_MEMORY);

	return p == MAP_FAILED ? -1 : 0;
}

static int random_area(struct random_thread *r)
{
	static const int prots[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
	static const int kinds[] = { MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS,
				     MAP_PRIVATE, MAP_SHARED };
	int prot = one_in(r, 4) ? prots[below(r, 3)] : PROT_READ | PROT_WRITE;
	int kind = kinds[below(r, 4)];
	char *p = mmap(any_area(r), RANDOM_AREA_BYTES, prot, MAP_FIXED | kind,
		       kind & MAP_ANONYMOUS ? -1 : r->scratch, 0);

	return p == MAP_FAILED ? -1 : 0;
}

static int random_unmap(struct random_thread *r)
{
	char *at = any_area(r) + below(r, RANDOM_AREA_BYTES / page) * page;

	if (one_in(r, 2))
		return madvise(at, page * (1 + below(r, 16)), MADV_DONTNEED);
	return munmap(at, page);
}

static int random_protect(struct random_thread *r)
{
	char *at = any_area(r) + below(r, RANDOM_AREA_BYTES / page) * page;

	return mprotect(at, page, one_in(r, 2) ? PROT_READ : PROT_READ | PROT_WRITE);
}

static int random_wait(struct random_thread *r, unsigned long request)
{
	struct paracuda_ioctl_wait w = {
		.offset = one_in(r, 8) ? any_number(r) : PARACUDA_SLOTS + 4 * below(r, 1024),
		.value = one_in(r, 2) ? 0 : any_number(r),
		.timeout_ns = 1 + below(r, one_in(r, 8) ? 20000000 : 200000),
	};

	return ioctl(any_file(r), request, any_argument(r, &w));
}

static int random_map(struct random_thread *r)
{
	struct paracuda_ioctl_map m = {
		.address = any_address(r), .bytes = any_length(r),
		.flags = one_in(r, 16) ? any_number(r) : below(r, 4),
	};

	return ioctl(any_file(r), PARACUDA_IOC_MAP, any_argument(r, &m));
}

static int random_export(struct random_thread *r)
{
	struct paracuda_ioctl_export e = {
		.object = one_in(r, 4) ? any_number(r) : mine.number, .fd = -1
	};

	if (ioctl(any_file(r), PARACUDA_IOC_EXPORT, any_argument(r, &e)))
		return -1;
	put_file(&mine.handle[below(r, RANDOM_HANDLES)], e.fd);
	return 0;
}

static int random_import(struct random_thread *r)
{
	struct paracuda_ioctl_import i = {
		.fd = one_in(r, 8) ? (int)any_number(r) : mine.handle[below(r, RANDOM_HANDLES)]
	};

	return ioctl(any_file(r), PARACUDA_IOC_IMPORT, any_argument(r, &i));
}

/* A request that there isn't, or another's number with a size or direction that isn't its own. */
static int random_strange(struct random_thread *r)
{
	unsigned int size = one_in(r, 2) ? 8 * below(r, 5) : below(r, 1 << 14);
	int fd = one_in(r, 4) ? mine.handle[below(r, RANDOM_HANDLES)] : any_file(r);

	return ioctl(fd, _IOC(below(r, 4), one_in(r, 4) ? below(r, 256) : 'P', below(r, 10), size),
		     (void *)(unsigned long)any_address(r));
}

/* Words where an arena may be, some of which look like a command. */
static int random_command(struct random_thread *r)
{
	char *at = any_area(r);
	struct paracuda_command m = {
		.op = below(r, 800), .flags = below(r, 4),
		.size = one_in(r, 8) ? any_number(r) : sizeof(m) + 8 * below(r, 8),
		.seq = any(r),
	};
	__u32 appended = one_in(r, 4) ? any(r) : m.size;

	if (!mine.wild)
		return 0;
	if (poke(r, at + PARACUDA_RING + 64 * below(r, 64), &m, sizeof(m)))
		return -1;
	return poke(r, at + offsetof(struct paracuda_arena_header, appended), &appended,
		    sizeof(appended));
}

/* A child has the descriptors, but not the channels. */
static int random_fork(struct random_thread *r)
{
	int fd = any_file(r);
	pid_t pid = fork();

	if (!pid) {
		ioctl(fd, PARACUDA_IOC_KICK);
		usleep(below(r, 20000));
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return pid < 0 ? -1 : 0;
}

static int act(struct random_thread *r, enum random_action a)
{
	switch (a) {
	case RANDOM_OPEN_FILE:
		return random_open_file(r);
	case RANDOM_CLOSE:
		put_file(one_in(r, 2) ? &mine.file[below(r, RANDOM_FILES)] :
			 &mine.handle[below(r, RANDOM_HANDLES)], -1);
		return 0;
	case RANDOM_OPEN:
		return random_open(r);
	case RANDOM_ARENA:
		return random_arena(r);
	case RANDOM_HOST:
		return random_host(r);
	case RANDOM_AREA:
		return random_area(r);
	case RANDOM_UNMAP:
		return random_unmap(r);
	case RANDOM_PROTECT:
		return random_protect(r);
	case RANDOM_KICK:
		return ioctl(any_file(r), PARACUDA_IOC_KICK);
	case RANDOM_WAIT:
		return random_wait(r, PARACUDA_IOC_WAIT);
	case RANDOM_POLL:
		return random_wait(r, PARACUDA_IOC_POLL);
	case RANDOM_MAP:
		return random_map(r);
	case RANDOM_EXPORT:
		return random_export(r);
	case RANDOM_IMPORT:
		return random_import(r);
	case RANDOM_STRANGE:
		return random_strange(r);
	case RANDOM_COMMAND:
		return random_command(r);
	default:
		return random_fork(r);
	}
}
