// SPDX-License-Identifier: Apache-2.0

// Modules, libraries, kernels, variables and launches of the fake.

struct function {
	char name[64];
	u64 size[8];
	int n;
};
// A constant is one of those called "constant0" and so on; each load has others.
struct constant {
	char content[64];
};
static struct constant bank[64][4];
static int banks;
struct module {
	struct function f[8];
	int n;
	struct constant *constants;
};

static int refuse_elf; // images that begin as ELF files do are refused
static char image_head[4096]; // of the text loaded last
API CUresult fake_refuse_elf(int on)
{
	refuse_elf = on;
	return CUDA_SUCCESS;
}

API CUresult fake_image(char *to, u64 n)
{
	memcpy(to, image_head, n < sizeof(image_head) ? n : sizeof(image_head));
	return CUDA_SUCCESS;
}

static void layout(struct function *f)
{
	static const u64 runs[] = { 8, 8 }, add[] = { 8, 8, 8, 4 }, sums[] = { 8, 8, 8 };
	if (!strcmp(f->name, "copy_runs")) {
		memcpy(f->size, runs, sizeof(runs));
		f->n = 2;
	}
	if (!strcmp(f->name, "vector_add")) {
		memcpy(f->size, add, sizeof(add));
		f->n = 4;
	}
	if (!strcmp(f->name, "sector_sums")) {
		memcpy(f->size, sums, sizeof(sums));
		f->n = 3;
	}
}

static u64 offset_of(const struct function *f, int i)
{
	u64 at = 0;
	for (int k = 0;; k++) {
		at = (at + f->size[k] - 1) / f->size[k] * f->size[k];
		if (k == i)
			return at;
		at += f->size[k];
	}
}

static u64 total_of(const struct function *f)
{
	return f->n ? offset_of(f, f->n - 1) + f->size[f->n - 1] : 0;
}

static CUresult load(void **out, const char *image, unsigned n, const int *id, void **value)
{
	if (refuse_elf && !memcmp(image, "\177ELF", 4))
		return CUDA_ERROR_INVALID_IMAGE;
	snprintf(image_head, sizeof(image_head), "%s", image);
	last_options = n;
	for (unsigned i = 0; i < n && i < 8; i++) {
		last_option[2 * i] = (u64)id[i];
		last_option[2 * i + 1] = (u64)value[i];
	}
	const char *text = strstr(image, "broken") ? "ptxas error: broken" : NULL;
	for (unsigned i = 0; i + 1 < n; i++) {
		if ((id[i] != CU_JIT_INFO_LOG_BUFFER && id[i] != CU_JIT_ERROR_LOG_BUFFER) ||
		    id[i + 1] != id[i] + 1)
			continue;
		const char *s = id[i] == CU_JIT_INFO_LOG_BUFFER ? "ptxas info" : text ? text : "";
		size_t room = (size_t)value[i + 1], len = strlen(s) + (*s != 0);
		if (len > room)
			len = room;
		memcpy(value[i], s, len);
		value[i + 1] = (void *)len;
	}
	if (text)
		return CUDA_ERROR_INVALID_PTX;
	struct module *m = calloc(1, sizeof(*m));
	m->constants = bank[banks++ % 64];
	for (int i = 0; i < 4; i++)
		memset(&m->constants[i], 'a' + i, sizeof(m->constants[i]));
	for (const char *p = image; (p = strstr(p, ".entry ")) && m->n < 8; p++) {
		sscanf(p + 7, "%63[A-Za-z0-9_]", m->f[m->n].name);
		layout(&m->f[m->n++]);
	}
	*out = m;
	return CUDA_SUCCESS;
}

API CUresult cuModuleLoadDataEx(void **m, const char *image, unsigned n, int *id, void **value)
{
	IN_CONTEXT;
	return load(m, image, n, id, value);
}

API CUresult cuLibraryLoadData(void **m, const char *image, int *id, void **value, unsigned n,
			       void *a, void *b, unsigned c)
{
	COUNT;
	return a || b || c ? CUDA_ERROR_INVALID_VALUE : load(m, image, n, id, value);
}

API CUresult cuModuleUnload(void *m)
{
	IN_CONTEXT;
	free(m);
	return CUDA_SUCCESS;
}

API CUresult cuLibraryUnload(void *m)
{
	COUNT;
	free(m);
	return CUDA_SUCCESS;
}

static CUresult find(void **f, struct module *m, const char *name)
{
	for (int i = 0; i < m->n; i++)
		if (!strcmp(m->f[i].name, name)) {
			*f = &m->f[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

API CUresult cuModuleGetFunction(void **f, struct module *m, const char *name)
{
	IN_CONTEXT;
	return find(f, m, name);
}

API CUresult cuLibraryGetKernel(void **f, struct module *m, const char *name)
{
	COUNT;
	return find(f, m, name);
}

API CUresult cuLibraryGetKernelCount(unsigned *n, struct module *m)
{
	COUNT;
	*n = (unsigned)m->n;
	return CUDA_SUCCESS;
}

API CUresult cuLibraryEnumerateKernels(void **k, unsigned n, struct module *m)
{
	COUNT;
	for (unsigned i = 0; i < n && (int)i < m->n; i++)
		k[i] = &m->f[i];
	return CUDA_SUCCESS;
}

// Every variable is there; the one called "hidden" is managed, and those that have content are the
// ones of package managed. Tests may write to them: fake_reload gives them what they had.
enum { PLAIN = 0x5000, HIDDEN = 0x6000 };
struct content {
	const char *name;
	u64 n, content[7];
};
static const struct content loaded[] = {
	{ "counter", 4, { 5 } },
	{ "managed0_i0", 4, { 5 } },
	{ "table", 56, { 1, 2, 3, 4, 5, 6, 7 } },
	{ "managed0_i1", 56, { 1, 2, 3, 4, 5, 6, 7 } },
	{ "toPlain", 8, { PLAIN } },
	{ "managed0_i3", 8, { PLAIN } },
};
static struct content contents[sizeof(loaded) / sizeof(loaded[0])];
__attribute__((constructor)) API CUresult fake_reload(void)
{
	memcpy(contents, loaded, sizeof(loaded));
	return CUDA_SUCCESS;
}

static CUresult variable(u64 *p, size_t *n, const struct module *m, const char *name)
{
	int i;
	if (sscanf(name, "constant%d", &i) == 1 && i >= 0 && i < 4) {
		*p = (u64)&m->constants[i];
		*n = sizeof(m->constants[i]);
		return CUDA_SUCCESS;
	}
	for (i = 0; i < (int)(sizeof(contents) / sizeof(contents[0])); i++)
		if (!strcmp(name, contents[i].name)) {
			*p = (u64)contents[i].content;
			*n = contents[i].n;
			return CUDA_SUCCESS;
		}
	*p = strcmp(name, "hidden") ? PLAIN : HIDDEN;
	*n = 4;
	return CUDA_SUCCESS;
}

API CUresult cuModuleGetGlobal_v2(u64 *p, size_t *n, struct module *m, const char *name)
{
	IN_CONTEXT;
	return variable(p, n, m, name);
}

API CUresult cuLibraryGetGlobal(u64 *p, size_t *n, struct module *m, const char *name)
{
	COUNT;
	return variable(p, n, m, name);
}

API CUresult cuLibraryGetManaged(u64 *p, size_t *n, struct module *m, const char *name)
{
	COUNT;
	return strcmp(name, "hidden") ? CUDA_ERROR_NOT_FOUND : variable(p, n, m, name);
}

API CUresult cuLibraryGetModule(void **out, struct module *m)
{
	IN_CONTEXT;
	*out = m;
	return CUDA_SUCCESS;
}

API CUresult cuKernelGetFunction(void **f, void *k)
{
	IN_CONTEXT;
	*f = k;
	return CUDA_SUCCESS;
}

API CUresult cuFuncGetParamInfo(struct function *f, size_t i, size_t *offset, size_t *size)
{
	if (i >= (size_t)f->n)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = offset_of(f, (int)i);
	*size = f->size[i];
	return CUDA_SUCCESS;
}

API CUresult cuKernelGetParamInfo(struct function *f, size_t i, size_t *offset, size_t *size)
{
	return cuFuncGetParamInfo(f, i, offset, size);
}

API CUresult cuFuncGetAttribute(int *v, int a, struct function *f)
{
	(void)f;
	*v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : -a;
	return CUDA_SUCCESS;
}

API CUresult cuKernelGetAttribute(int *v, int a, struct function *f, int d)
{
	(void)d;
	return cuFuncGetAttribute(v, a, f);
}

API CUresult cuFuncGetName(const char **s, struct function *f)
{
	*s = f->name;
	return CUDA_SUCCESS;
}

API CUresult cuKernelGetName(const char **s, struct function *f)
{
	*s = f->name;
	return CUDA_SUCCESS;
}

/* The nth number of a key, and the sum of a sector, as package sectorsum describes them. */
static u64 sum_number(u64 key, u64 n)
{
	u64 x = key + (n + 1) * 0x9e3779b97f4a7c15;
	for (int i = 0; i < 2; i++)
		x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	return (x ^ x >> 32) >> 6 | 1;
}

static u64 sector_sum(u64 key, const unsigned *half)
{
	const u64 prime = (1ull << 61) - 1;
	u64 sum = 0;
	for (unsigned lane = 0; lane < 512; lane++) { // one for each half of a word
		u64 value = 0, point = sum_number(key, lane % 2);
		for (unsigned i = lane; i < (256 << 10) / 4; i += 512)
			value = (u64)(((unsigned __int128)value * point + half[i]) % prime);
		unsigned __int128 part = (unsigned __int128)value * sum_number(key, lane + 2);
		sum = (u64)((sum + part) % prime);
	}
	return sum;
}

static void gpu_copy(void *to, const void *from, u64 n);
static CUresult run(struct function *f, const char *p, unsigned grid, unsigned block)
{
	if (!strcmp(f->name, "copy_runs")) {
		struct {
			char *dst, *src;
			u64 n, unused;
		} *list = *(void **)p;
		u64 n = *(const u64 *)(p + 8);
		for (u64 i = 0; i < n; i++)
			gpu_copy(list[i].dst, list[i].src, list[i].n);
	} else if (!strcmp(f->name, "vector_add")) {
		const float *a = *(float **)p, *b = *(float **)(p + 8);
		float *c = *(float **)(p + 16);
		for (unsigned i = 0; i < *(const unsigned *)(p + 24) && i < grid * block; i++)
			c[i] = a[i] + b[i];
	} else if (!strcmp(f->name, "sector_sums")) {
		const char *sector = *(const char **)p;
		for (unsigned i = 0; i < grid; i++)
			(*(u64 **)(p + 16))[i] = sector_sum(
				*(const u64 *)(p + 8), (const unsigned *)(sector + ((u64)i << 18)));
	} else if (!strcmp(f->name, "fault")) {
		sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
	} else if (!strcmp(f->name, "print")) {
		printf("hello from a kernel\n");
	}
	return CUDA_SUCCESS;
}

static CUresult launch(struct function *f, unsigned grid, unsigned block, void **params,
		       void **extra)
{
	static char packed[4096];

	if (!grid || !block || (params && extra))
		return CUDA_ERROR_INVALID_VALUE;
	if (params) {
		for (int i = 0; i < f->n; i++)
			memcpy(packed + offset_of(f, i), params[i], f->size[i]);
		return run(f, packed, grid, block);
	}
	size_t n = extra ? *(size_t *)extra[3] : 0, all = total_of(f);
	if (extra && (extra[0] != (void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT ||
		      extra[2] != (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT || extra[4]))
		return CUDA_ERROR_INVALID_VALUE;
	if (n > all)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (!n && all)
		return CUDA_ERROR_INVALID_VALUE;
	if (n) // fewer than all will do, as for driver 580
		memcpy(packed, extra[1], n);
	memset(packed + n, 0, all - n);
	return run(f, packed, grid, block);
}

API CUresult cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			    unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
			    void **extra)
{
	IN_CONTEXT;
	(void)shared;
	(void)stream;
	return launch(f, gx * gy * gz, bx * by * bz, params, extra);
}

static struct stream *capturing(void *s);
API CUresult cuLaunchKernelEx(const CUlaunchConfig *c, struct function *f, void **params,
			      void **extra)
{
	IN_CONTEXT;
	int id = c->numAttrs == 1 ? c->attrs[0].id : CU_LAUNCH_ATTRIBUTE_IGNORE;

	if (id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && id != CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		return CUDA_ERROR_INVALID_VALUE;
	if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && extra &&
	    capturing(c->hStream)) // as driver 580 does it
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, c->gridDimX * c->gridDimY * c->gridDimZ,
		      c->blockDimX * c->blockDimY * c->blockDimZ, params, extra);
}

/* One entry after the other. Each has a pointer to each of its parameters. */
API CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned n,
						  unsigned flags)
{
	IN_CONTEXT;
	if (!n || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++) {
		CUDA_LAUNCH_PARAMS *p = &list[i];

		if (!p->kernelParams || p->gridDimX != list->gridDimX)
			return CUDA_ERROR_INVALID_VALUE;
		CUresult r = launch(
			(struct function *)p->function, p->gridDimX * p->gridDimY * p->gridDimZ,
			p->blockDimX * p->blockDimY * p->blockDimZ, p->kernelParams, NULL);
		if (r)
			return r;
	}
	return CUDA_SUCCESS;
}
