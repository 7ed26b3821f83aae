/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references. Their state is the worker's. Programs bind textures before each launch, by ten
 * calls: of those, what changes a number to one that is documented can't fail, and isn't waited for.
 */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "code/loaded.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

/* CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT */
#define ATTRIBUTE_TEXTURE_ALIGNMENT 14

/* CU_TRSF_*, and how many there are of CUaddress_mode, CUfilter_mode and dimensions. */
#define FLAGS 0x73u
#define ADDRESS_MODES 4u
#define FILTER_MODES 2u
#define DIMENSIONS 3u
#define ANISOTROPY 16u

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
		result = handle_enter(HANDLE_TEXREF, handle, handle_new(sizeof(struct handle), loaded_root(hmod)));
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

/* Sends a change of two numbers. One that is documented need not be waited for. */
static CUresult change(unsigned op, CUtexref t, uint64_t a, uint64_t b, bool documented)
{
	struct request r;

	ENTER_CONTEXT();
	if (!handle_known(HANDLE_TEXREF, t))
		return CUDA_ERROR_INVALID_HANDLE;
	request_init(&r, op);
	request_word(&r, number_of(t));
	request_word(&r, a);
	request_word(&r, b);
	return documented ? channel_post(&r) : channel_call(&r, NULL, 0);
}

EXPORT CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags)
{
	return change(OP_cuTexRefSetFlags, hTexRef, Flags, 0, !(Flags & ~FLAGS));
}

EXPORT CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
	return change(OP_cuTexRefSetAddressMode, hTexRef, (uint64_t)dim, (uint64_t)am,
		      (unsigned)dim < DIMENSIONS && (unsigned)am < ADDRESS_MODES);
}

EXPORT CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	return change(OP_cuTexRefSetFilterMode, hTexRef, (uint64_t)fm, 0, (unsigned)fm < FILTER_MODES);
}

EXPORT CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	return change(OP_cuTexRefSetMipmapFilterMode, hTexRef, (uint64_t)fm, 0, (unsigned)fm < FILTER_MODES);
}

EXPORT CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso)
{
	return change(OP_cuTexRefSetMaxAnisotropy, hTexRef, maxAniso, 0, maxAniso <= ANISOTROPY);
}

/*
 * Nothing is bound by (NULL, 0), which is how the runtime ends a binding. Without a place for the offset, the address
 * must be one that needs none.
 */
EXPORT CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
	uint64_t offset, alignment;
	CUresult result;

	ENTER_CONTEXT();
	if (!dptr && !bytes) {
		result = change(OP_cuTexRefSetAddress_v2, hTexRef, 0, 0, true);
		if (!result && ByteOffset)
			*ByteOffset = 0;
		return result;
	}
	alignment = (uint64_t)device_number(context_owner()->device, ATTRIBUTE_TEXTURE_ALIGNMENT);
	if (!ByteOffset && alignment && dptr % alignment)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuTexRefSetAddress_v2(&offset, number_of(hTexRef), dptr, bytes);
	if (!result && ByteOffset)
		*ByteOffset = offset;
	return result;
}

EXPORT CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias)
{
	return change(OP_cuTexRefSetMipmapLevelBias, hTexRef, bits_of(bias), 0, true);
}

EXPORT CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp)
{
	return change(OP_cuTexRefSetMipmapLevelClamp, hTexRef, bits_of(minMipmapLevelClamp), bits_of(maxMipmapLevelClamp),
		      true);
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

EXPORT CUresult cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp, CUtexref hTexRef)
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

/* Asks what a reference is bound to. */
static CUresult bound(unsigned op, const void *reference, uint64_t *array)
{
	struct request r;

	request_init(&r, op);
	request_word(&r, number_of(reference));
	return channel_call(&r, array, 1);
}

EXPORT CUresult cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
	uint64_t array;
	CUresult result;

	ENTER_CONTEXT();
	if (!phArray)
		return CUDA_ERROR_INVALID_VALUE;
	result = bound(OP_cuTexRefGetArray, hTexRef, &array);
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
	result = bound(OP_cuTexRefGetMipmappedArray, hTexRef, &array);
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
	result = bound(OP_cuSurfRefGetArray, hSurfRef, &array);
	if (!result)
		*phArray = (CUarray)(uintptr_t)array;
	return result;
}
