/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface references: what of them the generated calls can't do. Their state is the worker's. */
#define _GNU_SOURCE
#include <string.h>

#include "device.h"
#include "handle.h"
#include "zz_generated_calls.h"
#include "zz_generated_prototypes.h"

/* CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT */
#define ATTRIBUTE_TEXTURE_ALIGNMENT 14

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

/* Without a place for the offset, the address must be one that needs none. */
EXPORT CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
	uint64_t offset, alignment;
	CUresult result;

	ENTER_CONTEXT();
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
	ENTER_CONTEXT();
	return call_cuTexRefSetMipmapLevelBias(number_of(hTexRef), bits_of(bias));
}

EXPORT CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp)
{
	ENTER_CONTEXT();
	return call_cuTexRefSetMipmapLevelClamp(number_of(hTexRef), bits_of(minMipmapLevelClamp), bits_of(maxMipmapLevelClamp));
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
