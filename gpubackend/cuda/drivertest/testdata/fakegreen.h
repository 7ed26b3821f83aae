// SPDX-License-Identifier: Apache-2.0

// Green contexts of the fake.

// A resource knows its multiprocessors, and has the driver's own mark where guests can't read.
static unsigned *mark(const CUdevResource *r)
{
	return (unsigned *)r->_internal_padding;
}

static CUresult describe(CUdevResource *r, int type, unsigned n)
{
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	memset(r, 0, sizeof(*r));
	r->type = type;
	*mark(r) = MARK;
	r->sm.smCount = n;
	r->sm.minSmPartitionSize = r->sm.smCoscheduledAlignment = 8;
	return CUDA_SUCCESS;
}

struct green {
	unsigned n;
};
API CUresult cuDeviceGetDevResource(int d, CUdevResource *r, int type)
{
	COUNT;
	return d ? CUDA_ERROR_INVALID_VALUE : describe(r, type, 132);
}

API CUresult cuCtxGetDevResource(void *c, CUdevResource *r, int type)
{
	COUNT;
	return c == contexts ? describe(r, type, 132) : describe(r, type, ((struct green *)c)->n);
}

API CUresult cuGreenCtxGetDevResource(struct green *g, CUdevResource *r, int type)
{
	COUNT;
	return describe(r, type, g->n);
}

API CUresult cuDevSmResourceSplitByCount(CUdevResource *out, unsigned *n, const CUdevResource *in,
					 CUdevResource *rest, unsigned flags, unsigned least)
{
	COUNT;
	const unsigned all = in->sm.smCount, each = (least + 7) / 8 * 8;
	unsigned made = all / each;
	if (*mark(in) != MARK || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!out) {
		*n = made;
		return CUDA_SUCCESS;
	}
	if (made > *n)
		made = *n;
	for (unsigned i = 0; i < made; i++)
		describe(out + i, CU_DEV_RESOURCE_TYPE_SM, each);
	describe(rest, CU_DEV_RESOURCE_TYPE_SM, all - made * each);
	*n = made;
	return CUDA_SUCCESS;
}

API CUresult cuDevResourceGenerateDesc(void **desc, const CUdevResource *r, unsigned n)
{
	COUNT;
	if (n != 1 || *mark(r) != MARK)
		return CUDA_ERROR_INVALID_VALUE;
	struct green *g = calloc(1, sizeof(*g));
	g->n = r->sm.smCount;
	*desc = g;
	return CUDA_SUCCESS;
}

API CUresult cuGreenCtxCreate(struct green **g, struct green *desc, int d, unsigned flags)
{
	COUNT;
	*g = malloc(sizeof(**g));
	**g = *desc;
	return d || flags != CU_GREEN_CTX_DEFAULT_STREAM ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuGreenCtxDestroy(struct green *g)
{
	COUNT;
	if (current == g)
		abort();
	free(g);
	return CUDA_SUCCESS;
}

API CUresult cuCtxFromGreenCtx(void **c, struct green *g)
{
	COUNT;
	*c = g;
	return CUDA_SUCCESS;
}

API CUresult cuGreenCtxStreamCreate(void **s, struct green *g, unsigned flags, int priority)
{
	COUNT;
	(void)g;
	(void)priority;
	*s = calloc(1, sizeof(struct stream));
	return flags == CU_STREAM_NON_BLOCKING ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
