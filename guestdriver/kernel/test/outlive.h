/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: arenas whose channels have ended. */

/* holds says whether every byte of the bulk area is `byte`. */
static int holds(const unsigned char *arena, size_t bytes, unsigned char byte)
{
	size_t i;

	for (i = PARACUDA_BULK; i < bytes && arena[i] == byte; i++)
		;
	return i >= bytes;
}

/* others opens and ends channels, and uses memory of its own. */
static int others(int unused, void *bytes)
{
	struct paracuda_ioctl_open o;
	int i, fd;
	char *a;

	(void)unused;
	for (i = 0; i < 4; i++) {
		fd = device();
		if (open_channel(fd, &o))
			return 1;
		a = mmap(NULL, o.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (a == MAP_FAILED || !holds((unsigned char *)a, o.arena_bytes, 0))
			return 2;
		memset(a + PARACUDA_BULK, 0x55, o.arena_bytes - PARACUDA_BULK);
		close(fd);
	}
	a = malloc(*(size_t *)bytes);
	if (!a)
		return 3;
	memset(a, 0x66, *(size_t *)bytes);
	free(a);
	return 0;
}

/* The arena of a channel that has ended is the process's until it is unmapped, piece by piece. */
static void outlived(char *a, size_t bytes)
{
	unsigned char *moved, *u = (unsigned char *)a;

	memset(a + PARACUDA_BULK, 0xaa, bytes - PARACUDA_BULK);
	check(run(others, -1, &bytes) == 0, "new arenas hold nothing of others");
	check(holds(u, bytes, 0xaa), "an arena outlives its channel");
	moved = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	moved = mremap(a + bytes - 2 * page, 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED,
		       moved);
	check(moved != MAP_FAILED && moved[0] == 0xaa && moved[2 * page - 1] == 0xaa,
	      "a piece of an arena can be moved");
	munmap(a + PARACUDA_BULK / page * page + page, page);
	check(run(others, -1, &bytes) == 0, "new arenas hold nothing of one in pieces");
	check(u[bytes - 2 * page - 1] == 0xaa && moved[page] == 0xaa, "pieces of an arena stay");
	munmap(moved, 2 * page);
	munmap(a, bytes);
}
