/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of paracuda-test.c: pages that the mover says it uses stay pinned, although the worker has
 * given them back, and what the worker reads lies in pages that hold nothing else. What the mover
 * would write to the voucher is written here, through /dev/mem.
 */

#define VOUCHED (6 * MIB)
#define SCANNED (64UL << 10)

static struct {
	int mem;		/* /dev/mem */
	unsigned long end;	/* of RAM */
	char buffer[SCANNED + 64];
} ram;

/* Whether this kernel lets root read its memory. */
static int ram_opens(void)
{
	char c;

	mknod("/dev/mem", S_IFCHR | 0600, 1 << 8 | 1);
	ram.mem = open("/dev/mem", O_RDWR | O_CLOEXEC);
	ram.end = sysconf(_SC_PHYS_PAGES) * page * 5 / 4 + 64 * MIB;
	return ram.mem >= 0 && pread(ram.mem, &c, 1, 32 * MIB) == 1;
}

/*
 * Where something is in RAM: what is() says of it, every 8 bytes. 0: nowhere. What was read is
 * wiped, so that it isn't found there.
 */
static unsigned long ram_find(int (*is)(const char *p, const void *what), const void *what)
{
	unsigned long at, found = 0;
	ssize_t i, n;

	for (at = 0; at < ram.end && !found; at += SCANNED) {
		n = pread(ram.mem, ram.buffer, sizeof(ram.buffer), at);
		for (i = 0; i + 64 <= n && !found; i += 8)
			if (is(ram.buffer + i, what))
				found = at + i;
		memset(ram.buffer, 0, sizeof(ram.buffer));
	}
	return found;
}

static int is_header(const char *p, const void *address)
{
	struct paracuda_chain_header h;

	memcpy(&h, p, sizeof(h));
	return h.type == PARACUDA_CHAIN_MAP && h.bytes == VOUCHED - 24 && h.voucher &&
	       h.state == PARACUDA_VOUCHER_STATE_VALID && h.address == *(const __u64 *)address;
}

/* Where the voucher for the pages at an address is. */
static unsigned long voucher_of(char *p)
{
	__u64 address = (unsigned long)p;

	return ram_find(is_header, &address);
}

static void set_state(unsigned long voucher, __u32 state)
{
	check(pwrite(ram.mem, &state, sizeof(state),
		     voucher + offsetof(struct paracuda_chain_header, state)) == sizeof(state),
	      "a voucher's state is set");
}

/* Whether the page of a voucher has nothing but headers, by their numbers, and room for some. */
static int only_headers(unsigned long voucher)
{
	struct paracuda_chain_header h[PARACUDA_HEADERS_PER_PAGE], none = { 0 };
	unsigned int i, of = (voucher & (page - 1)) / sizeof(h[0]);

	if (pread(ram.mem, h, sizeof(h), voucher & ~(page - 1UL)) != sizeof(h))
		return 0;
	for (i = 0; i < PARACUDA_HEADERS_PER_PAGE; i++)
		if (memcmp(&h[i], &none, sizeof(none)) &&
		    (h[i].voucher != h[of].voucher + i - of || h[i].type > PARACUDA_CHAIN_MAP ||
		     h[i].reserved))
			return 0;
	return 1;
}

/* Whether the list of a voucher's runs begins a page, and its runs are whole pages. */
static int only_runs(unsigned long voucher)
{
	struct paracuda_run runs[PARACUDA_RUNS_PER_LIST];
	struct paracuda_chain_header h;
	unsigned int i;
	__u64 bytes = 0;

	if (pread(ram.mem, &h, sizeof(h), voucher) != sizeof(h))
		return 0;
	if (h.runs > PARACUDA_RUNS_PER_LIST &&
	    pread(ram.mem, &h.list, sizeof(h.list), h.list) != sizeof(h.list))
		return 0;
	if (h.list % page || pread(ram.mem, runs, sizeof(runs), h.list) != sizeof(runs))
		return 0;
	for (i = 0; i < h.runs && i < PARACUDA_RUNS_PER_LIST; i++) {
		if (!runs[i].bytes || runs[i].bytes % page || runs[i].address % page)
			return 0;
		bytes += runs[i].bytes;
	}
	return h.runs > PARACUDA_RUNS_PER_LIST || bytes == VOUCHED;
}

/* Opens a channel, and pins pages whose voucher it then marks as in use. Returns the voucher. */
static unsigned long pages_in_use(struct channel *c, char *p, __u64 *id)
{
	struct paracuda_ioctl_map m = { .address = (unsigned long)p, .bytes = VOUCHED - 24,
					.flags = STAY };
	unsigned long voucher;
	int i, err;

	greet(c);
	/* What a channel that was just closed had pinned may still count. */
	for (err = -1, i = 0; i < 1000 && err; i++) {
		err = ioctl(c->fd, PARACUDA_IOC_MAP, &m);
		if (!err || errno != ENOMEM)
			break;
		usleep(10000);
	}
	expect(err, 0, "MAP of pages to be found");
	*id = m.id;
	voucher = voucher_of(p);
	check(voucher != 0, "the driver vouches for pinned pages");
	if (voucher)
		set_state(voucher, PARACUDA_VOUCHER_STATE_VALID + 2);
	return voucher;
}

/* In a process of its own, as the arenas stay mapped. Returns how many checks failed. */
static int pages_stay(int unused, void *nothing)
{
	char *p = memory(20 * MIB);
	unsigned long voucher;
	struct channel c;
	int i, err;
	__u64 id;

	(void)unused;
	(void)nothing;
	failures = 0;
	if (!ram_opens()) {
		printf("skipped: pages in use, as this kernel doesn't show its memory to root\n");
		return 0;
	}
	limit_pins("16");
	memset(p, 1, 20 * MIB);
	voucher = pages_in_use(&c, p, &id);
	if (!voucher)
		return failures;
	check(only_headers(voucher), "a page of headers has nothing else");
	check(only_runs(voucher), "a list of runs has a page, and nothing else");
	check(!command(&c, PARACUDA_OP_UNMAP, 1, &id, NULL), "UNMAP");
	for (err = 0, i = 0; i < 20 && !err; i++) {
		usleep(50000);	/* the driver looks every 15 ms */
		err = !map(c.fd, (long)(p + 8 * MIB), 11 * MIB, STAY);
	}
	check(!err, "pages in use stay pinned when the worker has given them back");
	set_state(voucher, PARACUDA_VOUCHER_STATE_VALID);
	for (err = -1, i = 0; i < 1000 && err; i++) {
		usleep(10000);
		err = map(c.fd, (long)(p + 8 * MIB), 11 * MIB, STAY);
	}
	check(!err, "they are unpinned after their use");
	close(c.fd);

	/* Elsewhere: the first map's header may still be there. */
	voucher = pages_in_use(&c, p + page, &id);
	close(c.fd);
	for (i = 0; i < 1000 && run(map_elsewhere, PASS, p); i++)
		usleep(10000);
	limit_pins("11");
	check(voucher && i < 1000 && run(map_elsewhere, PASS, p) == 0,
	      "they are unpinned when their channel has ended, whatever is counted");
	limit_pins("0");
	fflush(stdout);
	return failures;
}

static void vouchers(void)
{
	check(run(pages_stay, -1, NULL) == 0, "pages stay pinned as long as the mover uses them");
}
