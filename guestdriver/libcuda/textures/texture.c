/* SPDX-License-Identifier: Apache-2.0 */
/* Textures and surfaces. Their numbers are the driver's own: kernels get them as parameters. */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_commands.h"

/* What an object was made from, for questions about it. */
struct texture {
	struct handle handle;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
};

/* Objects may have low numbers, but handles begin after those of the default streams. */
static uint64_t key(unsigned long long object)
{
	return object + 16;
}

static struct texture *find(enum handle_kind kind, unsigned long long object)
{
	return (struct texture *)handle_find(kind, (void *)(uintptr_t)key(object));
}

static CUresult enter(enum handle_kind kind, uint64_t number, const CUDA_RESOURCE_DESC *resource,
		      const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct texture *t = (struct texture *)handle_new(sizeof(*t), 0);

	if (t) {
		t->resource = *resource;
		if (texture)
			t->texture = *texture;
		if (view)
			t->view = *view;
	}
	return handle_enter(kind, key(number), (struct handle *)t);
}

EXPORT CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
				  const CUDA_TEXTURE_DESC *pTexDesc,
				  const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	uint64_t number;
	CUresult result;

	ENTER_CONTEXT();
	if (!pTexObject || !pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexObjectCreate(
		argument_inline(pResDesc, sizeof(*pResDesc)),
		argument_inline(pTexDesc, pTexDesc ? sizeof(*pTexDesc) : 0),
		argument_inline(pResViewDesc, pResViewDesc ? sizeof(*pResViewDesc) : 0), &number);
	if (!result)
		result = enter(HANDLE_TEXTURE, number, pResDesc, pTexDesc, pResViewDesc);
	if (!result)
		*pTexObject = number;
	return result;
}

EXPORT CUresult cuTexObjectDestroy(CUtexObject texObject)
{
	ENTER_CONTEXT();
	if (!find(HANDLE_TEXTURE, texObject))
		return CUDA_ERROR_INVALID_VALUE;
	handle_forget(HANDLE_TEXTURE, (void *)(uintptr_t)key(texObject));
	return channel_synced(call_cuTexObjectDestroy(texObject));
}

EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	const struct texture *t;

	ENTER();
	t = find(HANDLE_TEXTURE, texObject);
	if (!t || !pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = t->resource;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	const struct texture *t;

	ENTER();
	t = find(HANDLE_TEXTURE, texObject);
	if (!t || !pTexDesc)
		return CUDA_ERROR_INVALID_VALUE;
	*pTexDesc = t->texture;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
					       CUtexObject texObject)
{
	const struct texture *t;

	ENTER();
	t = find(HANDLE_TEXTURE, texObject);
	if (!t || !pResViewDesc)
		return CUDA_ERROR_INVALID_VALUE;
	*pResViewDesc = t->view; /* zeros where there was none */
	return CUDA_SUCCESS;
}

EXPORT CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	uint64_t number;
	CUresult result;

	ENTER_CONTEXT();
	if (!pSurfObject || !pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuSurfObjectCreate(argument_inline(pResDesc, sizeof(*pResDesc)), &number);
	if (!result)
		result = enter(HANDLE_SURFACE, number, pResDesc, NULL, NULL);
	if (!result)
		*pSurfObject = number;
	return result;
}

EXPORT CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
	ENTER_CONTEXT();
	if (!find(HANDLE_SURFACE, surfObject))
		return CUDA_ERROR_INVALID_VALUE;
	handle_forget(HANDLE_SURFACE, (void *)(uintptr_t)key(surfObject));
	return channel_synced(call_cuSurfObjectDestroy(surfObject));
}

EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	const struct texture *t;

	ENTER();
	t = find(HANDLE_SURFACE, surfObject);
	if (!t || !pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = t->resource;
	return CUDA_SUCCESS;
}
