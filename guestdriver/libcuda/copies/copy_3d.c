/* SPDX-License-Identifier: Apache-2.0 */
/* Two- and three-dimensional copies, of arrays or of memory. */
#include "base/zz_generated_prototypes.h"
#include "context/context.h"
#include "copies/copy.h"
#include "copies/copy_array.h"

CUresult copy_3d(const CUDA_MEMCPY3D *c, int source, CUstream stream, bool async)
{
	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return copy_with_array(c, source, stream, async);
	return copy_memory(c, source, stream, async);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool async)
{
	CUDA_MEMCPY3D three = {
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};

	return copy_3d(&three, SIDE_ANY, stream, async);
}

EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	ENTER_CONTEXT();
	return pCopy ? copy_2d(pCopy, thread_stream(NULL), false) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	return cuMemcpy2D_v2(pCopy);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	ENTER_CONTEXT();
	return pCopy ? copy_2d(pCopy, hStream, true) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
	ENTER_CONTEXT();
	return pCopy ? copy_3d(pCopy, SIDE_ANY, thread_stream(NULL), false) :
		       CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	ENTER_CONTEXT();
	return pCopy ? copy_3d(pCopy, SIDE_ANY, hStream, true) : CUDA_ERROR_INVALID_VALUE;
}
