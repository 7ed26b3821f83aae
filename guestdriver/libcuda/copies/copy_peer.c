/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between contexts: here all are of one device. */
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/context.h"

static CUresult one_device(const CUDA_MEMCPY3D_PEER *c, CUDA_MEMCPY3D *plain)
{
	const struct context *src = c->srcContext, *dst = c->dstContext;

	if ((src && !context_known(src)) || (dst && !context_known(dst)))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (src && dst && src->device != dst->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	_Static_assert(sizeof(*plain) == sizeof(*c), "the same but for the contexts");
	memcpy(plain, c, sizeof(*plain));
	plain->reserved0 = plain->reserved1 = NULL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	CUDA_MEMCPY3D plain;
	CUresult result;

	ENTER_CONTEXT();
	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	result = one_device(pCopy, &plain);
	return result ? result : cuMemcpy3D_v2(&plain);
}

EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D plain;
	CUresult result;

	ENTER_CONTEXT();
	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	result = one_device(pCopy, &plain);
	return result ? result : cuMemcpy3DAsync_v2(&plain, hStream);
}
