/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references. Their state is the worker's. Programs bind textures before each
 * launch, with ten calls. Those that set a documented value can't fail, and aren't waited for.
 */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/loaded.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"

#define FLAGS                                                                                 \
	((unsigned)(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB | \
		    CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP))
#define LAST_ADDRESS_MODE ((unsigned)CU_TR_ADDRESS_MODE_BORDER)
#define LAST_FILTER_MODE ((unsigned)CU_TR_FILTER_MODE_LINEAR)
#define DIMENSIONS 3u
#define MAX_ANISOTROPY 16u

static uint64_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void store_float(float *to, uint64_t word)
{
	uint32_t bits = (uint32_t)word;

	memcpy(to, &bits, sizeof(bits));
}

EXPORT CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!pTexRef || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_MODULE, hmod))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuModuleGetTexRef(&handle, number_of(hmod), name);
	if (!result && !handle_known(HANDLE_TEXREF, (void *)(uintptr_t)handle))
		result = handle_enter(HANDLE_TEXREF, handle,
				      handle_new(sizeof(struct handle), loaded_root(hmod)));
	if (!result)
		*pTexRef = (CUtexref)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!pSurfRef || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_known(HANDLE_MODULE, hmod))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuModuleGetSurfRef(&handle, number_of(hmod), name);
	if (!result)
		*pSurfRef = (CUsurfref)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuTexRefCreate(CUtexref *pTexRef)
{
	uint64_t handle;
	CUresult result;

	ENTER_CONTEXT();
	if (!pTexRef)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexRefCreate(&handle);
	if (!result)
		result = handle_add(HANDLE_TEXREF, handle, 0, 0);
	if (!result)
		*pTexRef = (CUtexref)(uintptr_t)handle;
	return result;
}

EXPORT CUresult cuTexRefDestroy(CUtexref hTexRef)
{
	CUresult result;

	ENTER_CONTEXT();
	if (!handle_known(HANDLE_TEXREF, hTexRef))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuTexRefDestroy(number_of(hTexRef));
	if (!result)
		handle_forget(HANDLE_TEXREF, hTexRef);
	return channel_synced(result);
}

#define ENTER_REFERENCE(t)                                \
	do {                                              \
		ENTER_CONTEXT();                          \
		if (!handle_known(HANDLE_TEXREF, t))      \
			return CUDA_ERROR_INVALID_HANDLE; \
	} while (0)

/* Sends a change. One to a documented value need not be waited for. */
static CUresult change(const struct request *r, bool documented)
{
	return documented ? channel_post(r) : channel_call(r, NULL, 0);
}

EXPORT CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags)
{
	struct request r;

	ENTER_REFERENCE(hTexRef);
	request_cuTexRefSetFlags(&r, number_of(hTexRef), Flags);
	return change(&r, !(Flags & ~FLAGS));
}

EXPORT CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
	struct request r;

	ENTER_REFERENCE(hTexRef);
	request_cuTexRefSetAddressMode(&r, number_of(hTexRef), (uint64_t)dim, (uint64_t)am);
	return change(&r, (unsigned)dim < DIMENSIONS && (unsigned)am <= LAST_ADDRESS_MODE);
}

EXPORT CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	struct request r;

	ENTER_REFERENCE(hTexRef);
	request_cuTexRefSetFilterMode(&r, number_of(hTexRef), (uint64_t)fm);
	return change(&r, (unsigned)fm <= LAST_FILTER_MODE);
}

EXPORT CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	struct request r;

	ENTER_REFERENCE(hTexRef);
	request_cuTexRefSetMipmapFilterMode(&r, number_of(hTexRef), (uint64_t)fm);
	return change(&r, (unsigned)fm <= LAST_FILTER_MODE);
}

EXPORT CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso)
{
	struct request r;

	ENTER_REFERENCE(hTexRef);
	request_cuTexRefSetMaxAnisotropy(&r, number_of(hTexRef), maxAniso);
	return change(&r, maxAniso <= MAX_ANISOTROPY);
}

/*
 * (NULL, 0) binds nothing: the runtime ends a binding like this. Without a place for the offset,
 * the address must need none.
 */
EXPORT CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr,
				      size_t bytes)
{
	uint64_t offset, alignment;
	struct request r;
	CUresult result;

	ENTER_CONTEXT();
	if (!dptr && !bytes) {
		if (!handle_known(HANDLE_TEXREF, hTexRef))
			return CUDA_ERROR_INVALID_HANDLE;
		request_cuTexRefSetAddress_v2(&r, number_of(hTexRef), 0, 0);
		result = change(&r, true);
		if (!result && ByteOffset)
			*ByteOffset = 0;
		return result;
	}
	alignment = (uint64_t)device_number(context_owner()->device,
					    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
	if (!ByteOffset && alignment && dptr % alignment)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexRefSetAddress_v2(&offset, number_of(hTexRef), dptr, bytes);
	if (!result && ByteOffset)
		*ByteOffset = offset;
	return result;
}

EXPORT CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias)
{
	struct request r;

	ENTER_REFERENCE(hTexRef);
	request_cuTexRefSetMipmapLevelBias(&r, number_of(hTexRef), bits_of(bias));
	return change(&r, true);
}

EXPORT CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
					    float maxMipmapLevelClamp)
{
	struct request r;

	ENTER_REFERENCE(hTexRef);
	request_cuTexRefSetMipmapLevelClamp(&r, number_of(hTexRef), bits_of(minMipmapLevelClamp),
					    bits_of(maxMipmapLevelClamp));
	return change(&r, true);
}

EXPORT CUresult cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef)
{
	uint64_t bias;
	CUresult result;

	ENTER_CONTEXT();
	if (!pbias)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexRefGetMipmapLevelBias(&bias, number_of(hTexRef));
	if (!result)
		store_float(pbias, bias);
	return result;
}

EXPORT CUresult cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp,
					    float *pmaxMipmapLevelClamp, CUtexref hTexRef)
{
	uint64_t min, max;
	CUresult result;

	ENTER_CONTEXT();
	if (!pminMipmapLevelClamp || !pmaxMipmapLevelClamp)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexRefGetMipmapLevelClamp(&min, &max, number_of(hTexRef));
	if (result)
		return result;
	store_float(pminMipmapLevelClamp, min);
	store_float(pmaxMipmapLevelClamp, max);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
	uint64_t array;
	CUresult result;

	ENTER_CONTEXT();
	if (!phArray)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexRefGetArray(number_of(hTexRef), &array);
	if (!result)
		*phArray = (CUarray)(uintptr_t)array;
	return result;
}

EXPORT CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
	uint64_t array;
	CUresult result;

	ENTER_CONTEXT();
	if (!phMipmappedArray)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexRefGetMipmappedArray(number_of(hTexRef), &array);
	if (!result)
		*phMipmappedArray = (CUmipmappedArray)(uintptr_t)array;
	return result;
}

EXPORT CUresult cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef)
{
	uint64_t array;
	CUresult result;

	ENTER_CONTEXT();
	if (!phArray)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuSurfRefGetArray(number_of(hSurfRef), &array);
	if (!result)
		*phArray = (CUarray)(uintptr_t)array;
	return result;
}
