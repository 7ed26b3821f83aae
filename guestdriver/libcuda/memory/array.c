/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about arrays. A missing array is reported before a missing place for the answer. */
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"

EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	ENTER();
	if (!hArray)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	return call_cuArrayGetDescriptor_v2(pArrayDescriptor, sizeof(*pArrayDescriptor),
					    number_of(hArray));
}

EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	ENTER();
	if (!hArray)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	return call_cuArray3DGetDescriptor_v2(pArrayDescriptor, sizeof(*pArrayDescriptor),
					      number_of(hArray));
}
