// SPDX-License-Identifier: Apache-2.0

// Textures and surfaces of the fake.

/* Textures and surfaces are numbers. */
static u64 objects;
API CUresult cuTexObjectCreate(u64 *o, const void *resource, const void *texture, const void *view)
{
	IN_CONTEXT;
	(void)texture;
	(void)view;
	*o = ++objects;
	return resource ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuTexObjectDestroy(u64 o)
{
	IN_CONTEXT;
	return o > objects ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuSurfObjectCreate(u64 *o, const void *resource)
{
	IN_CONTEXT;
	*o = ++objects;
	return resource ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuSurfObjectDestroy(u64 o)
{
	IN_CONTEXT;
	return o > objects ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Texture and surface references: every name is one.
struct reference {
	void *array;
	float bias, clamp[2], color[4];
	unsigned flags;
};
static struct reference *reference(void)
{
	return calloc(1, sizeof(struct reference));
}

API CUresult cuModuleGetTexRef(struct reference **r, void *m, const char *name)
{
	IN_CONTEXT;
	*r = reference();
	return !m || !*name ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuModuleGetSurfRef(struct reference **r, void *m, const char *name)
{
	IN_CONTEXT;
	*r = reference();
	return !m || !*name ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuTexRefSetArray(struct reference *r, void *a, unsigned flags)
{
	IN_CONTEXT;
	r->array = a;
	return flags == CU_TRSA_OVERRIDE_FORMAT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuTexRefGetArray(void **a, const struct reference *r)
{
	IN_CONTEXT;
	*a = r->array;
	return *a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuSurfRefSetArray(struct reference *r, void *a, unsigned flags)
{
	IN_CONTEXT;
	r->array = a;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuSurfRefGetArray(void **a, const struct reference *r)
{
	IN_CONTEXT;
	*a = r->array;
	return *a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuTexRefSetMipmapLevelBias(struct reference *r, float bias)
{
	IN_CONTEXT;
	r->bias = bias;
	return CUDA_SUCCESS;
}

API CUresult cuTexRefGetMipmapLevelBias(float *bias, const struct reference *r)
{
	IN_CONTEXT;
	*bias = r->bias;
	return CUDA_SUCCESS;
}

API CUresult cuTexRefSetMipmapLevelClamp(struct reference *r, float a, float b)
{
	IN_CONTEXT;
	r->clamp[0] = a;
	r->clamp[1] = b;
	return CUDA_SUCCESS;
}

API CUresult cuTexRefGetMipmapLevelClamp(float *a, float *b, const struct reference *r)
{
	IN_CONTEXT;
	*a = r->clamp[0];
	*b = r->clamp[1];
	return CUDA_SUCCESS;
}

API CUresult cuTexRefSetBorderColor(struct reference *r, const float *color)
{
	IN_CONTEXT;
	memcpy(r->color, color, sizeof(r->color));
	return CUDA_SUCCESS;
}

API CUresult cuTexRefGetBorderColor(float *color, const struct reference *r)
{
	IN_CONTEXT;
	memcpy(color, r->color, sizeof(r->color));
	return CUDA_SUCCESS;
}

API CUresult cuTexRefSetFlags(struct reference *r, unsigned flags)
{
	IN_CONTEXT;
	r->flags = flags;
	return CUDA_SUCCESS;
}

API CUresult cuTexRefGetFlags(unsigned *flags, const struct reference *r)
{
	IN_CONTEXT;
	*flags = r->flags;
	return CUDA_SUCCESS;
}
