/* SPDX-License-Identifier: Apache-2.0 */
/* Advice about managed memory, of which there is none: the device says so, and every pointer is told so. */
#define _GNU_SOURCE
#include "device.h"
#include "handle.h"
#include "zz_generated_prototypes.h"

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	(void)devPtr;
	(void)count;
	(void)advice;
	(void)location;
	ENTER_CONTEXT();
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
				      CUstream hStream)
{
	(void)devPtr;
	(void)count;
	(void)flags;
	ENTER_CONTEXT();
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	/* Prefetching to a device is for those with concurrent access to managed memory. */
	return location.type == LOCATION_DEVICE ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
				       size_t count)
{
	(void)data;
	(void)dataSize;
	(void)attribute;
	(void)devPtr;
	(void)count;
	ENTER();
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
					size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	(void)data;
	(void)dataSizes;
	(void)attributes;
	(void)numAttributes;
	(void)devPtr;
	(void)count;
	ENTER();
	return CUDA_ERROR_INVALID_VALUE;
}
