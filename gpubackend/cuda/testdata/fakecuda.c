// SPDX-License-Identifier: Apache-2.0

// A driver library for tests: device memory is files in memory mapped in the window, every stream
// is idle at once unless a test says otherwise, and the kernels that tests launch are known by
// name.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int32_t CUresult;
typedef uint64_t u64;
#define API __attribute__((visibility("default")))

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_INIT = 3, BAD_CONTEXT = 201, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600 };

static struct { const char *name; u64 n; } counters[128];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count(const char *name)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 128; i++) {
		if (!counters[i].name)
			counters[i].name = name;
		if (!strcmp(counters[i].name, name)) {
			counters[i].n++;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}
#define COUNT count(__func__)

static int initialised;
static int not_ready;	   // queries that answer NOT_READY
static int sticky;	   // what every call in a context returns
static int fail_create;	   // allocations that fail
static u64 last_option[16];
static u64 last_options;
static __thread void *current, *below;

#define IN_CONTEXT do { COUNT; if (sticky) return sticky; if (!current) return BAD_CONTEXT; } while (0)

API CUresult fake_count(const char *name, u64 *n)
{
	*n = 0;
	for (int i = 0; i < 128 && counters[i].name; i++)
		if (!strcmp(counters[i].name, name))
			*n = counters[i].n;
	return OK;
}
API CUresult fake_not_ready(int n) { not_ready = n; return OK; }
API CUresult fake_sticky(int r) { sticky = r; return OK; }
API CUresult fake_fail_create(int n) { fail_create = n; return OK; }
API CUresult fake_options(u64 *out, u64 *n) { memcpy(out, last_option, sizeof(last_option)); *n = last_options; return OK; }

API CUresult cuInit(unsigned flags) { COUNT; initialised = 1; return flags ? INVALID : OK; }
API CUresult cuDriverGetVersion(int *v) { *v = 13010; return OK; }
API CUresult cuDeviceGetCount(int *n) { if (!initialised) return NOT_INIT; const char *e = getenv("FAKE_DEVICES"); *n = e ? atoi(e) : 1; return OK; }
API CUresult cuDeviceGet(int *d, int i) { *d = i; return OK; }
API CUresult cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Fake GPU %d", d); return OK; }
API CUresult cuDeviceGetUuid_v2(char *u, int d) { for (int i = 0; i < 16; i++) u[i] = (char)(16 * d + i); return OK; }
API CUresult cuDeviceGetLuid(char *l, unsigned *m, int d) { (void)l; (void)m; (void)d; return 801; }
API CUresult cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = (size_t)1 << 30; return OK; }
API CUresult cuDeviceGetAttribute(int *v, int a, int d)
{
	(void)d;
	if (a < 1 || a > 143)
		return INVALID;
	*v = a == 88 ? getenv("FAKE_PAGEABLE") != NULL : a == 75 ? 9 : a == 76 ? 0 : a == 39 ? 2048 : 1;
	return OK;
}

static char contexts[16];
API CUresult cuDevicePrimaryCtxRetain(void **c, int d) { COUNT; *c = &contexts[d]; return OK; }
API CUresult cuDevicePrimaryCtxRelease_v2(int d) { COUNT; (void)d; return OK; }
API CUresult cuDevicePrimaryCtxReset_v2(int d) { COUNT; (void)d; sticky = 0; return OK; }
API CUresult cuCtxCreate_v2(void **c, unsigned f, int d) { COUNT; (void)f; (void)d; below = current; *c = current = malloc(1); return OK; }
API CUresult cuCtxPopCurrent_v2(void **c) { COUNT; *c = current; current = below; return OK; }
static void end_streams(const void *c);
API CUresult cuCtxDestroy_v2(void *c) { COUNT; if (current == c) current = NULL; end_streams(c); free(c); return OK; }
API CUresult cuCtxSetCurrent(void *c) { COUNT; current = c; return OK; }
API CUresult cuCtxSynchronize(void) { IN_CONTEXT; not_ready = 0; return OK; }
API CUresult cuCtxGetStreamPriorityRange(int *l, int *g) { *l = 0; *g = -5; return OK; }
static size_t limit[3] = {1000, 1001, 1002};
API CUresult cuCtxGetLimit(size_t *v, int l) { IN_CONTEXT; *v = l < 3 ? limit[l] : 1000 + (size_t)l; return OK; }
API CUresult cuCtxSetLimit(int l, size_t v) { IN_CONTEXT; if (l > 2 || v == 13) return INVALID; limit[l] = v; return OK; }

struct function { char name[64]; u64 size[8]; int n; };
struct module { struct function f[8]; int n; };

static int refuse_elf;	   // images that begin as ELF files do are refused
static char image_head[4096]; // of the text loaded last
API CUresult fake_refuse_elf(int on) { refuse_elf = on; return OK; }
API CUresult fake_image(char *to, u64 n) { memcpy(to, image_head, n < sizeof(image_head) ? n : sizeof(image_head)); return OK; }

static void layout(struct function *f)
{
	static const u64 runs[] = {8, 8}, add[] = {8, 8, 8, 4};
	if (!strcmp(f->name, "copy_runs")) { memcpy(f->size, runs, sizeof(runs)); f->n = 2; }
	if (!strcmp(f->name, "vector_add")) { memcpy(f->size, add, sizeof(add)); f->n = 4; }
}
static u64 offset_of(const struct function *f, int i)
{
	u64 at = 0;
	for (int k = 0; ; k++) {
		at = (at + f->size[k] - 1) / f->size[k] * f->size[k];
		if (k == i)
			return at;
		at += f->size[k];
	}
}
static u64 total_of(const struct function *f) { return f->n ? offset_of(f, f->n - 1) + f->size[f->n - 1] : 0; }

static CUresult load(void **out, const char *image, unsigned n, const int *id, void **value)
{
	if (refuse_elf && !memcmp(image, "\x7f" "ELF", 4))
		return 200;
	snprintf(image_head, sizeof(image_head), "%s", image);
	last_options = n;
	for (unsigned i = 0; i < n && i < 8; i++) { last_option[2 * i] = (u64)id[i]; last_option[2 * i + 1] = (u64)value[i]; }
	const char *text = strstr(image, "broken") ? "ptxas error: broken" : NULL;
	for (unsigned i = 0; i + 1 < n; i++) {
		if ((id[i] != 3 && id[i] != 5) || id[i + 1] != id[i] + 1)
			continue;
		const char *s = id[i] == 3 ? "ptxas info" : text ? text : "";
		size_t room = (size_t)value[i + 1], len = strlen(s) + (*s != 0);
		if (len > room)
			len = room;
		memcpy(value[i], s, len);
		value[i + 1] = (void *)len;
	}
	if (text)
		return 218;
	struct module *m = calloc(1, sizeof(*m));
	for (const char *p = image; (p = strstr(p, ".entry ")) && m->n < 8; p++) {
		sscanf(p + 7, "%63[A-Za-z0-9_]", m->f[m->n].name);
		layout(&m->f[m->n++]);
	}
	*out = m;
	return OK;
}
API CUresult cuModuleLoadDataEx(void **m, const char *image, unsigned n, int *id, void **value) { IN_CONTEXT; return load(m, image, n, id, value); }
API CUresult cuLibraryLoadData(void **m, const char *image, int *id, void **value, unsigned n, void *a, void *b, unsigned c)
{
	COUNT;
	return a || b || c ? INVALID : load(m, image, n, id, value);
}
API CUresult cuModuleUnload(void *m) { IN_CONTEXT; free(m); return OK; }
API CUresult cuLibraryUnload(void *m) { COUNT; free(m); return OK; }
static CUresult find(void **f, struct module *m, const char *name)
{
	for (int i = 0; i < m->n; i++)
		if (!strcmp(m->f[i].name, name)) { *f = &m->f[i]; return OK; }
	return NOT_FOUND;
}
API CUresult cuModuleGetFunction(void **f, struct module *m, const char *name) { IN_CONTEXT; return find(f, m, name); }
API CUresult cuLibraryGetKernel(void **f, struct module *m, const char *name) { COUNT; return find(f, m, name); }
API CUresult cuLibraryGetKernelCount(unsigned *n, struct module *m) { COUNT; *n = (unsigned)m->n; return OK; }
API CUresult cuLibraryEnumerateKernels(void **k, unsigned n, struct module *m)
{
	COUNT;
	for (unsigned i = 0; i < n && (int)i < m->n; i++)
		k[i] = &m->f[i];
	return OK;
}
// Every variable is there; the one called "hidden" is managed, and those that have content are the
// ones of package managed.
enum { PLAIN = 0x5000, HIDDEN = 0x6000 };
static struct { const char *name; u64 n, content[7]; } contents[] = {
	{"counter", 4, {5}}, {"managed0_i0", 4, {5}}, {"table", 56, {1, 2, 3, 4, 5, 6, 7}},
	{"managed0_i1", 56, {1, 2, 3, 4, 5, 6, 7}}, {"toPlain", 8, {PLAIN}}, {"managed0_i3", 8, {PLAIN}},
};
static CUresult variable(u64 *p, size_t *n, const char *name)
{
	for (unsigned i = 0; i < sizeof(contents) / sizeof(contents[0]); i++)
		if (!strcmp(name, contents[i].name)) { *p = (u64)contents[i].content; *n = contents[i].n; return OK; }
	*p = strcmp(name, "hidden") ? PLAIN : HIDDEN;
	*n = 4;
	return OK;
}
API CUresult cuModuleGetGlobal_v2(u64 *p, size_t *n, struct module *m, const char *name) { IN_CONTEXT; (void)m; return variable(p, n, name); }
API CUresult cuLibraryGetGlobal(u64 *p, size_t *n, struct module *m, const char *name) { COUNT; (void)m; return variable(p, n, name); }
API CUresult cuLibraryGetManaged(u64 *p, size_t *n, struct module *m, const char *name) { COUNT; (void)m; return strcmp(name, "hidden") ? NOT_FOUND : variable(p, n, name); }
// Device memory is at reserved addresses and where variables are.
static struct { u64 base, size; } reserved[16];
static int on_device(u64 p)
{
	for (int i = 0; i < 16; i++)
		if (p - reserved[i].base < reserved[i].size)
			return 1;
	return p == PLAIN || p == HIDDEN || p - (u64)contents < sizeof(contents);
}
static int places(unsigned type, u64 p) { return type == 4 || (type == 2 && on_device(p)); }
API CUresult cuPointerGetAttribute(int *v, int a, u64 p)
{
	COUNT;
	*v = a == 2 ? 2 : p == HIDDEN;
	return a == 8 || (a == 2 && on_device(p)) ? OK : INVALID;
}
API CUresult cuLibraryGetModule(void **out, struct module *m) { IN_CONTEXT; *out = m; return OK; }
API CUresult cuKernelGetFunction(void **f, void *k) { IN_CONTEXT; *f = k; return OK; }
API CUresult cuFuncGetParamInfo(struct function *f, size_t i, size_t *offset, size_t *size)
{
	if (i >= (size_t)f->n)
		return INVALID;
	*offset = offset_of(f, (int)i);
	*size = f->size[i];
	return OK;
}
API CUresult cuKernelGetParamInfo(struct function *f, size_t i, size_t *offset, size_t *size) { return cuFuncGetParamInfo(f, i, offset, size); }
API CUresult cuFuncGetAttribute(int *v, int a, struct function *f) { (void)f; *v = a == 0 ? 1024 : -a; return OK; }
API CUresult cuKernelGetAttribute(int *v, int a, struct function *f, int d) { (void)d; return cuFuncGetAttribute(v, a, f); }
API CUresult cuFuncGetName(const char **s, struct function *f) { *s = f->name; return OK; }
API CUresult cuKernelGetName(const char **s, struct function *f) { *s = f->name; return OK; }

static CUresult run(struct function *f, const char *p, unsigned grid, unsigned block)
{
	if (!strcmp(f->name, "copy_runs")) {
		struct { char *dst, *src; u64 n, unused; } *list = *(void **)p;
		u64 n = *(const u64 *)(p + 8);
		for (u64 i = 0; i < n; i++)
			memcpy(list[i].dst, list[i].src, list[i].n);
	} else if (!strcmp(f->name, "vector_add")) {
		const float *a = *(float **)p, *b = *(float **)(p + 8);
		float *c = *(float **)(p + 16);
		for (unsigned i = 0; i < *(const unsigned *)(p + 24) && i < grid * block; i++)
			c[i] = a[i] + b[i];
	} else if (!strcmp(f->name, "fault")) {
		sticky = 700;
	} else if (!strcmp(f->name, "print")) {
		printf("hello from a kernel\n");
	}
	return OK;
}
static CUresult launch(struct function *f, unsigned grid, unsigned block, void **params, void **extra)
{
	static char packed[4096];

	if (!grid || !block || (params && extra))
		return INVALID;
	if (params) {
		for (int i = 0; i < f->n; i++)
			memcpy(packed + offset_of(f, i), params[i], f->size[i]);
		return run(f, packed, grid, block);
	}
	size_t n = extra ? *(size_t *)extra[3] : 0, all = total_of(f);
	if (extra && (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]))
		return INVALID;
	if (n > all)
		return 701;
	if (!n && all)
		return INVALID;
	if (n) // fewer than all will do, as for driver 580
		memcpy(packed, extra[1], n);
	memset(packed + n, 0, all - n);
	return run(f, packed, grid, block);
}
API CUresult cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			    unsigned shared, void *stream, void **params, void **extra)
{
	IN_CONTEXT;
	(void)shared; (void)stream;
	return launch(f, gx * gy * gz, bx * by * bz, params, extra);
}
static struct stream *capturing(void *s);
API CUresult cuLaunchKernelEx(const unsigned *c, struct function *f, void **params, void **extra)
{
	IN_CONTEXT;
	// CUlaunchConfig: grid, block, shared, stream at 32, attributes at 40, count at 48
	unsigned id = c[12] == 1 ? **(unsigned **)(c + 10) : 0;

	if (id != 4 && id != 2)
		return INVALID;
	if (id == 2 && extra && capturing(*(void **)(c + 8))) // as driver 580 does it
		return INVALID;
	return launch(f, c[0] * c[1] * c[2], c[3] * c[4] * c[5], params, extra);
}

struct memory { int fd; u64 size; };
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
API CUresult cuMemRelease(struct memory *h) { COUNT; close(h->fd); free(h); return OK; }
API CUresult cuMemMap(u64 p, u64 size, u64 offset, struct memory *h, u64 flags)
{
	COUNT;
	if (offset || flags || size > h->size)
		return INVALID;
	return mmap((void *)p, size, PROT_NONE, MAP_SHARED | MAP_FIXED, h->fd, 0) == MAP_FAILED ? NO_MEMORY : OK;
}
API CUresult cuMemSetAccess(u64 p, u64 size, const unsigned *desc, u64 n)
{
	COUNT;
	return n != 1 || desc[0] != 1 || desc[2] != 3 || mprotect((void *)p, size, PROT_READ | PROT_WRITE) ? INVALID : OK;
}
API CUresult cuMemUnmap(u64 p, u64 size)
{
	COUNT;
	return mmap((void *)p, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED;
}
API CUresult cuMemExportToShareableHandle(int *fd, struct memory *h, int type, u64 flags) { COUNT; *fd = dup(h->fd); return type != 1 || flags; }
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
API CUresult cuMemGetInfo_v2(size_t *f, size_t *t) { IN_CONTEXT; *f = 900 << 20; *t = 1 << 30; return OK; }
API CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) { IN_CONTEXT; *p = calloc(1, n); return flags != 3; }
API CUresult cuMemFreeHost(void *p) { IN_CONTEXT; free(p); return OK; }

static struct { u64 base, size, id; } registered[256];
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
		if (registered[i].size && p < registered[i].base + registered[i].size && registered[i].base < p + n)
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

static int recorded(void *st, void *d, const void *s, u64 n); // in a graph: the copy isn't to be done
API CUresult cuMemcpyAsync(void *d, const void *s, u64 n, void *st) { IN_CONTEXT; if (!recorded(st, d, s, n)) memmove(d, s, n); return OK; }
API CUresult cuMemcpyHtoDAsync_v2(void *d, const void *s, u64 n, void *st) { IN_CONTEXT; (void)st; memcpy(d, s, n); return OK; }
API CUresult cuMemcpyDtoHAsync_v2(void *d, const void *s, u64 n, void *st) { IN_CONTEXT; (void)st; memcpy(d, s, n); return OK; }
API CUresult cuMemcpyDtoDAsync_v2(void *d, const void *s, u64 n, void *st) { IN_CONTEXT; (void)st; memmove(d, s, n); return OK; }
#ifndef NO_BATCHES // as before CUDA 13
API CUresult cuMemcpyBatchAsync_v2(void **d, void **s, const size_t *n, size_t copies, const unsigned *attributes, const size_t *first,
				   size_t kinds, void *st)
{
	IN_CONTEXT;
	if (!copies || kinds != 1 || *first || attributes[0] < 1 || attributes[0] > 3 || attributes[5] > 1 || !st)
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
	if (c[0] || c[1] || !places((unsigned)c[2], c[4]) || c[7] || c[8] || !places((unsigned)c[9], c[11]))
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
	box((char *)c[17], c[20], c[20] * c[21], (char *)c[6], c[9], c[9] * c[10], c[22], c[23], c[24]);
	return OK;
}
API CUresult cuMemsetD8Async(void *d, unsigned char v, size_t n, void *st) { IN_CONTEXT; (void)st; memset(d, v, n); return OK; }
API CUresult cuMemsetD32Async(unsigned *d, unsigned v, size_t n, void *st) { IN_CONTEXT; (void)st; while (n--) *d++ = v; return OK; }

// A stream that is destroyed is remembered: who asks it is told off.
struct stream { int waiting, gone; struct graph *graph; void *context; struct stream *next; };
static struct stream legacy;
static struct stream *stream_of(void *s) { return (u64)s < 3 ? &legacy : s; }
static struct stream *streams;
static void end_streams(const void *c)
{
	for (struct stream *s = streams; s; s = s->next)
		s->gone |= s->context == c;
}
API CUresult cuStreamCreateWithPriority(struct stream **s, unsigned flags, int priority)
{
	IN_CONTEXT;
	(void)priority;
	*s = calloc(1, sizeof(**s));
	(*s)->context = current;
	(*s)->next = streams;
	streams = *s;
	return flags > 1;
}
API CUresult cuStreamDestroy_v2(void *s) { IN_CONTEXT; stream_of(s)->gone = 1; return OK; }
API CUresult cuStreamSynchronize(void *s) { IN_CONTEXT; (void)s; return OK; }
API CUresult cuStreamWriteValue32_v2(void *s, u64 addr, unsigned value, unsigned flags)
{
	IN_CONTEXT;
	(void)s;
	if (flags) return INVALID;
	COUNT;
	*(unsigned *)addr = value;
	return OK;
}

API CUresult cuStreamQuery(void *s)
{
	IN_CONTEXT;
	if (stream_of(s)->gone)
		return 400;
	if (capturing(s))
		return 900;
	if (__atomic_load_n(&stream_of(s)->waiting, __ATOMIC_ACQUIRE))
		return NOT_READY;
	if (not_ready > 0) { not_ready--; return NOT_READY; }
	return OK;
}

struct event { struct timespec at; struct graph *graph; };
API CUresult cuStreamWaitEvent(void *s, const struct event *e, unsigned f)
{
	IN_CONTEXT;
	if (e->graph)
		stream_of(s)->graph = e->graph;
	return f ? INVALID : OK;
}
/* Textures and surfaces are numbers. */
static u64 objects;
API CUresult cuTexObjectCreate(u64 *o, const void *resource, const void *texture, const void *view) { IN_CONTEXT; (void)texture; (void)view; *o = ++objects; return !resource; }
API CUresult cuTexObjectDestroy(u64 o) { IN_CONTEXT; return o > objects; }
API CUresult cuSurfObjectCreate(u64 *o, const void *resource) { IN_CONTEXT; *o = ++objects; return !resource; }
API CUresult cuSurfObjectDestroy(u64 o) { IN_CONTEXT; return o > objects; }

API CUresult cuEventCreate(void **e, unsigned flags) { IN_CONTEXT; *e = calloc(1, sizeof(struct event)); return flags > 3 && flags != 6; }
API CUresult cuEventDestroy_v2(void *e) { IN_CONTEXT; free(e); return OK; }
API CUresult cuEventRecordWithFlags(struct event *e, void *s, unsigned f)
{
	IN_CONTEXT;
	COUNT;
	if (stream_of(s)->gone)
		return 400;
	e->graph = capturing(s) ? stream_of(s)->graph : NULL;
	clock_gettime(CLOCK_MONOTONIC, &e->at);
	return f ? INVALID : OK;
}
API CUresult cuEventQuery(void *e) { IN_CONTEXT; (void)e; if (not_ready > 0) { not_ready--; return NOT_READY; } return OK; }
API CUresult cuEventSynchronize(void *e) { IN_CONTEXT; (void)e; return OK; }
API CUresult cuEventElapsedTime(float *ms, struct event *a, struct event *b)
{
	IN_CONTEXT;
	*ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 + (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
	return OK;
}

struct call { void (*f)(void *); void *data; struct stream *s; };
static void *caller(void *p)
{
	struct call c = *(struct call *)p;
	free(p);
	c.f(c.data);
	__atomic_sub_fetch(&c.s->waiting, 1, __ATOMIC_RELEASE);
	return NULL;
}
API CUresult cuLaunchHostFunc(void *s, void (*f)(void *), void *data)
{
	IN_CONTEXT;
	struct call *c = malloc(sizeof(*c));
	pthread_t t;
	*c = (struct call){f, data, stream_of(s)};
	__atomic_add_fetch(&c->s->waiting, 1, __ATOMIC_ACQUIRE);
	if (pthread_create(&t, NULL, caller, c))
		return 999;
	pthread_detach(t);
	return OK;
}

#include "fakegraph.h"

// Green contexts: a resource knows its multiprocessors (documented, at 96) and the driver's own
// mark (at 8).
enum { RESOURCE = 144, MARK = 0x5ec4e7 };
static CUresult describe(char *r, int type, unsigned n)
{
	if (type != 1)
		return 914;
	memset(r, 0, RESOURCE);
	*(int *)r = type;
	*(unsigned *)(r + 8) = MARK;
	*(unsigned *)(r + 96) = n;
	*(unsigned *)(r + 100) = *(unsigned *)(r + 104) = 8;
	return OK;
}
struct green { unsigned n; };
API CUresult cuDeviceGetDevResource(int d, char *r, int type) { COUNT; return d ? INVALID : describe(r, type, 132); }
API CUresult cuCtxGetDevResource(void *c, char *r, int type) { COUNT; return c == contexts ? describe(r, type, 132) : describe(r, type, ((struct green *)c)->n); }
API CUresult cuGreenCtxGetDevResource(struct green *g, char *r, int type) { COUNT; return describe(r, type, g->n); }
API CUresult cuDevSmResourceSplitByCount(char *out, unsigned *n, const char *in, char *rest, unsigned flags, unsigned least)
{
	COUNT;
	const unsigned all = *(const unsigned *)(in + 96), each = (least + 7) / 8 * 8;
	unsigned made = all / each;
	if (*(const unsigned *)(in + 8) != MARK || flags)
		return INVALID;
	if (!out) { *n = made; return OK; }
	if (made > *n)
		made = *n;
	for (unsigned i = 0; i < made; i++)
		describe(out + i * RESOURCE, 1, each);
	describe(rest, 1, all - made * each);
	*n = made;
	return OK;
}
API CUresult cuDevResourceGenerateDesc(void **desc, const char *r, unsigned n)
{
	COUNT;
	if (n != 1 || *(const unsigned *)(r + 8) != MARK)
		return INVALID;
	struct green *g = calloc(1, sizeof(*g));
	g->n = *(const unsigned *)(r + 96);
	*desc = g;
	return OK;
}
API CUresult cuGreenCtxCreate(struct green **g, struct green *desc, int d, unsigned flags)
{
	COUNT;
	*g = malloc(sizeof(**g));
	**g = *desc;
	return d || flags != 1 ? INVALID : OK;
}
API CUresult cuGreenCtxDestroy(struct green *g) { COUNT; if (current == g) abort(); free(g); return OK; }
API CUresult cuCtxFromGreenCtx(void **c, struct green *g) { COUNT; *c = g; return OK; }
API CUresult cuGreenCtxStreamCreate(void **s, struct green *g, unsigned flags, int priority) { COUNT; (void)g; (void)priority; *s = calloc(1, sizeof(struct stream)); return flags != 1; }

// Interprocess events: the handle is the event's address and a mark.
struct event_handle { u64 word[8]; };
API CUresult cuIpcGetEventHandle(struct event_handle *h, void *e) { IN_CONTEXT; memset(h, 0, sizeof(*h)); h->word[0] = (u64)e; h->word[7] = MARK; return OK; }
API CUresult cuIpcOpenEventHandle(void **e, struct event_handle h) { IN_CONTEXT; *e = (void *)h.word[0]; return h.word[7] == MARK ? OK : BAD_HANDLE; }

// Texture and surface references: every name is one.
struct reference { void *array; float bias, clamp[2], color[4]; unsigned flags; };
static struct reference *reference(void) { return calloc(1, sizeof(struct reference)); }
API CUresult cuModuleGetTexRef(struct reference **r, void *m, const char *name) { IN_CONTEXT; *r = reference(); return !m || !*name ? INVALID : OK; }
API CUresult cuModuleGetSurfRef(struct reference **r, void *m, const char *name) { IN_CONTEXT; *r = reference(); return !m || !*name ? INVALID : OK; }
API CUresult cuTexRefSetArray(struct reference *r, void *a, unsigned flags) { IN_CONTEXT; r->array = a; return flags == 1 ? OK : INVALID; }
API CUresult cuTexRefGetArray(void **a, const struct reference *r) { IN_CONTEXT; *a = r->array; return *a ? OK : INVALID; }
API CUresult cuSurfRefSetArray(struct reference *r, void *a, unsigned flags) { IN_CONTEXT; r->array = a; return flags ? INVALID : OK; }
API CUresult cuSurfRefGetArray(void **a, const struct reference *r) { IN_CONTEXT; *a = r->array; return *a ? OK : INVALID; }
API CUresult cuTexRefSetMipmapLevelBias(struct reference *r, float bias) { IN_CONTEXT; r->bias = bias; return OK; }
API CUresult cuTexRefGetMipmapLevelBias(float *bias, const struct reference *r) { IN_CONTEXT; *bias = r->bias; return OK; }
API CUresult cuTexRefSetMipmapLevelClamp(struct reference *r, float a, float b) { IN_CONTEXT; r->clamp[0] = a; r->clamp[1] = b; return OK; }
API CUresult cuTexRefGetMipmapLevelClamp(float *a, float *b, const struct reference *r) { IN_CONTEXT; *a = r->clamp[0]; *b = r->clamp[1]; return OK; }
API CUresult cuTexRefSetBorderColor(struct reference *r, const float *color) { IN_CONTEXT; memcpy(r->color, color, sizeof(r->color)); return OK; }
API CUresult cuTexRefGetBorderColor(float *color, const struct reference *r) { IN_CONTEXT; memcpy(color, r->color, sizeof(r->color)); return OK; }
API CUresult cuTexRefSetFlags(struct reference *r, unsigned flags) { IN_CONTEXT; r->flags = flags; return OK; }
API CUresult cuTexRefGetFlags(unsigned *flags, const struct reference *r) { IN_CONTEXT; *flags = r->flags; return OK; }
