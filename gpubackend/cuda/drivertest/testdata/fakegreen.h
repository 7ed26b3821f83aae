// SPDX-License-Identifier: Apache-2.0

// Green contexts of the fake.

// Green contexts: a resource knows its multiprocessors (documented, at 96) and the driver's own
// mark (at 8).
enum { RESOURCE = 144 };
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

struct green {
	unsigned n;
};
API CUresult cuDeviceGetDevResource(int d, char *r, int type)
{
	COUNT;
	return d ? INVALID : describe(r, type, 132);
}

API CUresult cuCtxGetDevResource(void *c, char *r, int type)
{
	COUNT;
	return c == contexts ? describe(r, type, 132) : describe(r, type, ((struct green *)c)->n);
}

API CUresult cuGreenCtxGetDevResource(struct green *g, char *r, int type)
{
	COUNT;
	return describe(r, type, g->n);
}

API CUresult cuDevSmResourceSplitByCount(char *out, unsigned *n, const char *in, char *rest,
					 unsigned flags, unsigned least)
{
	COUNT;
	const unsigned all = *(const unsigned *)(in + 96), each = (least + 7) / 8 * 8;
	unsigned made = all / each;
	if (*(const unsigned *)(in + 8) != MARK || flags)
		return INVALID;
	if (!out) {
		*n = made;
		return OK;
	}
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

API CUresult cuGreenCtxDestroy(struct green *g)
{
	COUNT;
	if (current == g)
		abort();
	free(g);
	return OK;
}

API CUresult cuCtxFromGreenCtx(void **c, struct green *g)
{
	COUNT;
	*c = g;
	return OK;
}

API CUresult cuGreenCtxStreamCreate(void **s, struct green *g, unsigned flags, int priority)
{
	COUNT;
	(void)g;
	(void)priority;
	*s = calloc(1, sizeof(struct stream));
	return flags != 1;
}
