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
	return p == PLAIN || p == HIDDEN || p - (u64)contents < sizeof(contents) ||
	       p - (u64)bank < sizeof(bank);
}

static int places(int type, u64 p)
{
	return type == CU_MEMORYTYPE_UNIFIED || (type == CU_MEMORYTYPE_DEVICE && on_device(p));
}

API CUresult cuPointerGetAttribute(int *v, int a, u64 p)
{
	COUNT;
	*v = a == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_DEVICE : p == HIDDEN;
	return a == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
			       (a == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && on_device(p)) ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_VALUE;
}

struct memory {
	int fd;
	u64 size;
};
API CUresult cuMemAddressReserve(u64 *p, u64 size, u64 align, u64 hint, u64 flags)
{
	COUNT;
	if (align || flags)
		return CUDA_ERROR_INVALID_VALUE;
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
	return m == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

API CUresult cuMemAddressFree(u64 p, u64 size)
{
	COUNT;
	for (int i = 0; i < 16; i++)
		if (reserved[i].base == p)
			reserved[i].size = 0;
	munmap((void *)p, size);
	return CUDA_SUCCESS;
}

API CUresult cuMemCreate(struct memory **h, u64 size, const CUmemAllocationProp *prop, u64 flags)
{
	COUNT;
	if (flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    (unsigned)prop->requestedHandleTypes > CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || size % (2 << 20))
		return CUDA_ERROR_INVALID_VALUE;
	if (fail_create > 0 && fail_create--)
		return CUDA_ERROR_OUT_OF_MEMORY;
	const char *room = getenv("FAKE_ROOM"); // for all that this process ever creates
	static u64 created;
	if (room && created + size > strtoull(room, NULL, 0))
		return CUDA_ERROR_OUT_OF_MEMORY;
	created += size;
	*h = malloc(sizeof(**h));
	(*h)->fd = memfd_create("fake", MFD_CLOEXEC);
	(*h)->size = size;
	return ftruncate((*h)->fd, (off_t)size) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

API CUresult cuMemRelease(struct memory *h)
{
	COUNT;
	close(h->fd);
	free(h);
	return CUDA_SUCCESS;
}

// What is mapped where.
static struct mapping {
	u64 base;
	struct memory memory;
	struct mapping *next;
} * mappings;
static void forget_mapping(u64 p)
{
	for (struct mapping **m = &mappings; *m; m = &(*m)->next)
		if ((*m)->base == p) {
			struct mapping *gone = *m;
			*m = gone->next;
			close(gone->memory.fd);
			free(gone);
			return;
		}
}

API CUresult cuMemMap(u64 p, u64 size, u64 offset, struct memory *h, u64 flags)
{
	COUNT;
	if (offset || flags || size > h->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap((void *)p, size, PROT_NONE, MAP_SHARED | MAP_FIXED, h->fd, 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct mapping *m = malloc(sizeof(*m));
	*m = (struct mapping){ p, { dup(h->fd), h->size }, mappings };
	mappings = m;
	return CUDA_SUCCESS;
}

API CUresult cuMemRetainAllocationHandle(struct memory **h, u64 p)
{
	COUNT;
	for (struct mapping *m = mappings; m; m = m->next)
		if (m->base == p) {
			*h = malloc(sizeof(**h));
			**h = (struct memory){ dup(m->memory.fd), m->memory.size };
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemSetAccess(u64 p, u64 size, const CUmemAccessDesc *desc, u64 n)
{
	COUNT;
	return n != 1 || desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
			       desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
			       mprotect((void *)p, size, PROT_READ | PROT_WRITE) ?
		       CUDA_ERROR_INVALID_VALUE :
		       CUDA_SUCCESS;
}

API CUresult cuMemUnmap(u64 p, u64 size)
{
	COUNT;
	forget_mapping(p);
	return mmap((void *)p, size, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED ?
		       CUDA_ERROR_INVALID_VALUE :
		       CUDA_SUCCESS;
}

API CUresult cuMemExportToShareableHandle(int *fd, struct memory *h, int type, u64 flags)
{
	COUNT;
	*fd = dup(h->fd);
	return type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags ?
		       CUDA_ERROR_INVALID_VALUE :
		       CUDA_SUCCESS;
}

API CUresult cuMemImportFromShareableHandle(struct memory **h, u64 fd, int type)
{
	COUNT;
	struct stat st;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat((int)fd, &st) ||
	    !S_ISREG(st.st_mode))
		return CUDA_ERROR_INVALID_VALUE;
	*h = malloc(sizeof(**h));
	(*h)->fd = dup((int)fd);
	(*h)->size = (u64)st.st_size;
	return CUDA_SUCCESS;
}

// Memory is of GPU 0, but for that of files which are called gpu1.
API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, struct memory *h)
{
	COUNT;
	char link[64], name[64] = { 0 };

	snprintf(link, sizeof(link), "/proc/self/fd/%d", h->fd);
	memset(prop, 0, sizeof(*prop));
	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop->location.id = readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, "gpu1");
	return CUDA_SUCCESS;
}

API CUresult cuMemGetInfo_v2(size_t *f, size_t *t)
{
	IN_CONTEXT;
	*f = 900 << 20;
	*t = 1 << 30;
	return CUDA_SUCCESS;
}

API CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
	IN_CONTEXT;
	COUNT;
	*p = calloc(1, n);
	return flags == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemFreeHost(void *p)
{
	IN_CONTEXT;
	COUNT;
	free(p);
	return CUDA_SUCCESS;
}

// Registered memory is pinned: the GPU reaches the pages that were there when it was registered, by
// a second mapping of them, whatever is mapped there since. Private memory can't be mapped twice.
static struct registered {
	u64 base, size, id, pages;
	char *pinned; // NULL: it isn't
	const void *context; // of the primary ones only that which did it can undo it
} registered[256];
static u64 registrations;
enum { PAGE = 4096 };

static void pin(struct registered *r)
{
	u64 first = r->base / PAGE * PAGE;
	r->pages = (r->base + r->size - first + PAGE - 1) / PAGE * PAGE;
	char *to =
		mmap(NULL, r->pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (u64 at = 0; to != MAP_FAILED && at < r->pages; at += PAGE)
		if (mremap((void *)(first + at), 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + at) ==
		    MAP_FAILED) {
			munmap(to, r->pages);
			to = MAP_FAILED;
		}
	r->pinned = to == MAP_FAILED ? NULL : to;
}

static void unpin(struct registered *r)
{
	if (r->pinned)
		munmap(r->pinned, r->pages);
	r->size = 0;
}

// fake_unpin undoes what nobody could unregister any more, as the end of a process does.
API CUresult fake_unpin(void)
{
	for (int i = 0; i < 256; i++)
		if (registered[i].size)
			unpin(&registered[i]);
	return CUDA_SUCCESS;
}

// reach is where the GPU finds n bytes.
static void *reach(const void *p, u64 n)
{
	for (const struct registered *r = registered; r < registered + 256; r++)
		if (r->pinned && (u64)p - r->base < r->size && n <= r->base + r->size - (u64)p)
			return r->pinned + ((u64)p - r->base / PAGE * PAGE);
	return (void *)p;
}

static void gpu_copy(void *to, const void *from, u64 n)
{
	memmove(reach(to, n), reach(from, n), n);
}

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
	if ((flags & ~(unsigned)CU_MEMHOSTREGISTER_READ_ONLY) !=
	    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP))
		return CUDA_ERROR_INVALID_VALUE;
	if (getenv("FAKE_FAIL_REGISTER"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < 256; i++)
		if (registered[i].size && p < registered[i].base + registered[i].size &&
		    registered[i].base < p + n)
			return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	for (int i = 0; i < 256; i++)
		if (!registered[i].size) {
			registered[i].base = p;
			registered[i].size = n;
			registered[i].id = ++registrations;
			registered[i].context = current;
			pin(&registered[i]);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemHostUnregister(u64 p)
{
	IN_CONTEXT;
	for (int i = 0; i < 256; i++)
		if (registered[i].size && registered[i].base == p) {
			if (primary(registered[i].context) && primary(current) &&
			    registered[i].context != current)
				return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
			unpin(&registered[i]);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static int recorded(void *st, void *d, const void *s,
		    u64 n); // in a graph: the copy isn't to be done
API CUresult cuMemcpyAsync(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	if (!recorded(st, d, s, n))
		gpu_copy(d, s, n);
	return CUDA_SUCCESS;
}

API CUresult cuMemcpyHtoDAsync_v2(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	(void)st;
	gpu_copy(d, s, n);
	return CUDA_SUCCESS;
}

API CUresult cuMemcpyDtoHAsync_v2(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	(void)st;
	gpu_copy(d, s, n);
	return CUDA_SUCCESS;
}

API CUresult cuMemcpyDtoDAsync_v2(void *d, const void *s, u64 n, void *st)
{
	IN_CONTEXT;
	if (!recorded(st, d, s, n))
		gpu_copy(d, s, n);
	return CUDA_SUCCESS;
}
#ifndef NO_BATCHES // as before CUDA 13
API CUresult cuMemcpyBatchAsync_v2(void **d, void **s, const size_t *n, size_t copies,
				   const CUmemcpyAttributes *attributes, const size_t *first,
				   size_t kinds, void *st)
{
	IN_CONTEXT;
	if (!copies || kinds != 1 || *first ||
	    attributes->srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	    attributes->srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
	    attributes->flags > CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE || !st)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < copies; i++)
		gpu_copy(d[i], s[i], n[i]);
	return CUDA_SUCCESS;
}
#endif
static void box(char *d, u64 dp, u64 ds, const char *s, u64 sp, u64 ss, u64 w, u64 h, u64 z)
{
	for (u64 k = 0; k < z; k++)
		for (u64 y = 0; y < h; y++)
			gpu_copy(d + k * ds + y * dp, s + k * ss + y * sp, w);
}

API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, void *st)
{
	IN_CONTEXT;
	(void)st;
	if (c->srcXInBytes || c->srcY || !places(c->srcMemoryType, c->srcDevice) ||
	    c->dstXInBytes || c->dstY || !places(c->dstMemoryType, c->dstDevice))
		return CUDA_ERROR_INVALID_VALUE;
	box((char *)c->dstDevice, c->dstPitch, 0, (char *)c->srcDevice, c->srcPitch, 0,
	    c->WidthInBytes, c->Height, 1);
	return CUDA_SUCCESS;
}

API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, void *st)
{
	IN_CONTEXT;
	(void)st;
	if (!places(c->srcMemoryType, c->srcDevice) || !places(c->dstMemoryType, c->dstDevice))
		return CUDA_ERROR_INVALID_VALUE;
	box((char *)c->dstDevice, c->dstPitch, c->dstPitch * c->dstHeight, (char *)c->srcDevice,
	    c->srcPitch, c->srcPitch * c->srcHeight, c->WidthInBytes, c->Height, c->Depth);
	return CUDA_SUCCESS;
}

API CUresult cuMemsetD8Async(void *d, unsigned char v, size_t n, void *st)
{
	IN_CONTEXT;
	(void)st;
	memset(reach(d, n), v, n);
	return CUDA_SUCCESS;
}

API CUresult cuMemsetD32Async(unsigned *d, unsigned v, size_t n, void *st)
{
	IN_CONTEXT;
	(void)st;
	d = reach(d, 4 * n);
	while (n--)
		*d++ = v;
	return CUDA_SUCCESS;
}
