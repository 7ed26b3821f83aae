// SPDX-License-Identifier: Apache-2.0

// Device memory, registered host memory, copies and fills of the fake.

// Device memory is at reserved addresses and where variables are.
static struct {
	u64 base, size;
} reserved[16];
static int on_device(u64 p)
{
	for (int i = 0; i < 16; i++)
		if (p - reserved[i].base < reserved[i].size)
			return 1;
	return p == PLAIN || p == HIDDEN || p - (u64)contents < sizeof(contents);
}

static int places(unsigned type, u64 p)
{
	return type == 4 || (type == 2 && on_device(p));
}

API CUresult cuPointerGetAttribute(int *v, int a, u64 p)
{
	COUNT;
	*v = a == 2 ? 2 : p == HIDDEN;
	return a == 8 || (a == 2 && on_device(p)) ? OK : INVALID;
}

struct memory {
	int fd;
	u64 size;
};
API CUresult cuMemAddressReserve(u64 *p, u64 size, u64 align, u64 hint, u64 flags)
{
	COUNT;
	if (align || flags)
		return INVALID;
	const int flags_mmap = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	const u64 granularity = 2 << 20;
	void *m = mmap((void *)hint, size, PROT_NONE, flags_mmap | MAP_FIXED_NOREPLACE, -1, 0);
	if (m == MAP_FAILED)
		m = mmap(NULL, size + granularity, PROT_NONE, flags_mmap, -1, 0);
	*p = ((u64)m + granularity - 1) / granularity * granularity;
	for (int i = 0; m != MAP_FAILED && i < 16; i++)
		if (!reserved[i].size) {
			reserved[i].base = *p;
			reserved[i].size = size;
			break;
		}
	return m == MAP_FAILED ? NO_MEMORY : OK;
}

API CUresult cuMemAddressFree(u64 p, u64 size)
{
	COUNT;
	for (int i = 0; i < 16; i++)
		if (reserved[i].base == p)
			reserved[i].size = 0;
	munmap((void *)p, size);
	return OK;
}

API CUresult cuMemCreate(struct memory **h, u64 size, const unsigned *prop, u64 flags)
{
	COUNT;
	if (flags || prop[0] != 1 || prop[1] > 1 || prop[2] != 1 || size % (2 << 20))
		return INVALID;
	if (fail_create > 0 && fail_create--)
		return NO_MEMORY;
	*h = malloc(sizeof(**h));
	(*h)->fd = memfd_create("fake", MFD_CLOEXEC);
	(*h)->size = size;
	return ftruncate((*h)->fd, (off_t)size) ? NO_MEMORY : OK;
}

API CUresult cuMemRelease(struct memory *h)
{
	COUNT;
	close(h->fd);
	free(h);
	return OK;
}

API CUresult cuMemMap(u64 p, u64 size, u64 offset, struct memory *h, u64 flags)
{
	COUNT;
	if (offset || flags || size > h->size)
		return INVALID;
	return mmap((void *)p, size, PROT_NONE, MAP_SHARED | MAP_FIXED, h->fd, 0) == MAP_FAILED ?
		       NO_MEMORY :
		       OK;
}

API CUresult cuMemSetAccess(u64 p, u64 size, const unsigned *desc, u64 n)
{
	COUNT;
	return n != 1 || desc[0] != 1 || desc[2] != 3 ||
			       mprotect((void *)p, size, PROT_READ | PROT_WRITE) ?
		       INVALID :
		       OK;
}

API CUresult cuMemUnmap(u64 p, u64 size)
{
	COUNT;
	return mmap((void *)p, size, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED;
}

API CUresult cuMemExportToShareableHandle(int *fd, struct memory *h, int type, u64 flags)
{
	COUNT;
	*fd = dup(h->fd);
	return type != 1 || flags;
}

API CUresult cuMemImportFromShareableHandle(struct memory **h, u64 fd, int type)
{
	COUNT;
	struct stat st;
	if (type != 1 || fstat((int)fd, &st) || !S_ISREG(st.st_mode))
		return INVALID;
	*h = malloc(sizeof(**h));
	(*h)->fd = dup((int)fd);
	(*h)->size = (u64)st.st_size;
	return OK;
}

// Memory is of GPU 0, but for that of files which are called gpu1.
API CUresult cuMemGetAllocationPropertiesFromHandle(unsigned *prop, struct memory *h)
{
	COUNT;
	char link[64], name[64] = { 0 };

	snprintf(link, sizeof(link), "/proc/self/fd/%d", h->fd);
	memset(prop, 0, 32);
	prop[0] = prop[2] = 1;
	prop[3] = readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, "gpu1");
	return OK;
}

API CUresult cuMemGetInfo_v2(size_t *f, size_t *t)
{
	IN_CONTEXT;
	*f = 900 << 20;
	*t = 1 << 30;
	return OK;
}

API CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
	IN_CONTEXT;
	COUNT;
	*p = calloc(1, n);
	return flags != 3;
}

API CUresult cuMemFreeHost(void *p)
{
	IN_CONTEXT;
	COUNT;
	free(p);
	return OK;
}

static struct {
	u64 base, size, id;
} registered[256];
static u64 registrations;

// registration is the number of the one that holds p, 0 for none.
static u64 registration(u64 p)
{
	for (int i = 0; i < 256; i++)
		if (registered[i].size && p - registered[i].base < registered[i].size)
			return registered[i].id;
	return 0;
}

API CUresult cuMemHostRegister_v2(u64 p, u64 n, unsigned flags)
{
	IN_CONTEXT;
	if ((flags & ~8u) != 3)
		return INVALID;
	if (getenv("FAKE_FAIL_REGISTER"))
		return NO_MEMORY;
	for (int i = 0; i < 256; i++)
		if (registered[i].size && p < registered[i].base + registered[i].size &&
		    registered[i].base < p + n)
			return 712;
	for (int i = 0; i < 256; i++)
		if (!registered[i].size) {
			registered[i].base = p;
			registered[i].size = n;
			registered[i].id = ++registrations;
			return OK;
		}
	return NO_MEMORY;
}

API CUresult cuMemHostUnregister(u64 p)
{
	IN_CONTEXT;
	for (int i = 0; i < 256; i++)
		if (registered[i].size && registered[i].base == p) {
			registered[i].size = 0;
			return OK;
		}
	return 713;
}

static int recorded(void *st, void *d, const void *s,
		    u64 n); // in a graph: the copy isn't to be done
API CUresult cuMemcpyAsync(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	if (!recorded(st, d, s, n))
		memmove(d, s, n);
	return OK;
}

API CUresult cuMemcpyHtoDAsync_v2(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	(void)st;
	memcpy(d, s, n);
	return OK;
}

API CUresult cuMemcpyDtoHAsync_v2(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	(void)st;
	memcpy(d, s, n);
	return OK;
}

API CUresult cuMemcpyDtoDAsync_v2(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	(void)st;
	memmove(d, s, n);
	return OK;
}
#ifndef NO_BATCHES // as before CUDA 13
API CUresult cuMemcpyBatchAsync_v2(void **d, void **s, const size_t *n, size_t copies,
				   const unsigned *attributes, const size_t *first, size_t kinds,
				   void *st)
{
	IN_CONTEXT;
	if (!copies || kinds != 1 || *first || attributes[0] < 1 || attributes[0] > 3 ||
	    attributes[5] > 1 || !st)
		return INVALID;
	for (size_t i = 0; i < copies; i++)
		memcpy(d[i], s[i], n[i]);
	return OK;
}
#endif
static void box(char *d, u64 dp, u64 ds, const char *s, u64 sp, u64 ss, u64 w, u64 h, u64 z)
{
	for (u64 k = 0; k < z; k++)
		for (u64 y = 0; y < h; y++)
			memcpy(d + k * ds + y * dp, s + k * ss + y * sp, w);
}

API CUresult cuMemcpy2DAsync_v2(const u64 *c, void *st)
{
	IN_CONTEXT;
	(void)st;
	if (c[0] || c[1] || !places((unsigned)c[2], c[4]) || c[7] || c[8] ||
	    !places((unsigned)c[9], c[11]))
		return INVALID;
	box((char *)c[11], c[13], 0, (char *)c[4], c[6], 0, c[14], c[15], 1);
	return OK;
}

API CUresult cuMemcpy3DAsync_v2(const u64 *c, void *st)
{
	IN_CONTEXT;
	(void)st;
	if (!places((unsigned)c[4], c[6]) || !places((unsigned)c[15], c[17]))
		return INVALID;
	box((char *)c[17], c[20], c[20] * c[21], (char *)c[6], c[9], c[9] * c[10], c[22], c[23],
	    c[24]);
	return OK;
}

API CUresult cuMemsetD8Async(void *d, unsigned char v, size_t n, void *st)
{
	IN_CONTEXT;
	(void)st;
	memset(d, v, n);
	return OK;
}

API CUresult cuMemsetD32Async(unsigned *d, unsigned v, size_t n, void *st)
{
	IN_CONTEXT;
	(void)st;
	while (n--)
		*d++ = v;
	return OK;
}
