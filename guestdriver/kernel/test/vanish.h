/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: memory whose pages, and whose page tables, go while it is mapped. */

#define TABLE (2 << 20)	/* what one page table maps */

struct vanish {
	pthread_t thread;
	char *at;
	void (*lose)(char *at);
	int stop;
};

/* Empties a whole page table, which the kernel then frees. */
static void lose_pages(char *at)
{
	madvise(at, TABLE, MADV_DONTNEED);
}

/* Puts other memory in its place, and with that ends all tables that only it needed. */
static void lose_memory(char *at)
{
	munmap(at, TABLE);
	mmap(at, TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void *vanish(void *arg)
{
	struct vanish *v = arg;

	while (!__atomic_load_n(&v->stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 16; i++)
			((volatile char *)v->at)[i * page] = 1;
		v->lose(v->at);
	}
	return NULL;
}

/* Maps memory for as long as another thread takes it away. The guest survives it, or doesn't. */
static void vanishing(void (*lose)(char *), char *at, int from, const char *what)
{
	struct vanish v = { .at = at, .lose = lose };
	struct paracuda_ioctl_map *m;
	struct paracuda_ioctl_open o;
	int fd = device(), bad = 0;
	double end;

	expect(open_channel(fd, &o), 0, "OPEN");
	/* The id can't be stored, so that no MAP is left. */
	m = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	m->address = (long)at + from * page;
	m->bytes = page;
	m->flags = PARACUDA_MAP_FLAG_WRITE | PARACUDA_MAP_FLAG_ONESHOT;
	mprotect(m, page, PROT_READ);
	pthread_create(&v.thread, NULL, vanish, &v);
	for (end = now() + 2; now() < end;)
		for (int i = 0; i < 100; i++)
			bad += ioctl(fd, PARACUDA_IOC_MAP, m) == 0 || errno != EFAULT;
	__atomic_store_n(&v.stop, 1, __ATOMIC_RELAXED);
	pthread_join(v.thread, NULL);
	check(!bad, what);
	munmap(m, page);
	close(fd);
}

static void vanishes(void)
{
	char *p = mmap(NULL, 2 * TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at = (char *)(((unsigned long)p + TABLE - 1) & ~(TABLE - 1UL));
	/* A place with tables of all levels of its own. */
	char *lone = (char *)0x200000000000;

	vanishing(lose_pages, at, 99, "MAP of memory whose page table goes");
	munmap(p, 2 * TABLE);
	if (mmap(lone, TABLE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != lone) {
		check(0, "memory by itself");
		return;
	}
	vanishing(lose_memory, lone, 0, "MAP of memory that goes");
	munmap(lone, TABLE);
}
