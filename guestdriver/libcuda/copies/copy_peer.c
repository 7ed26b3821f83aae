/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between contexts. If both contexts are on one device, these are ordinary copies; else the
 * worker is told which context each side is in.
 */
#define _GNU_SOURCE
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "copies/copy.h"
#include "streams/activity.h"
#include "streams/capture.h"
#include "streams/stream.h"

/* Between two devices. */
static CUresult copy_across(CUdeviceptr dst, const struct context *to, CUdeviceptr src,
			    const struct context *from, size_t bytes, CUstream stream)
{
	struct side there, here;
	struct request r;
	CUresult result = side_find(dst, bytes, SIDE_DEVICE, &there);

	if (!result)
		result = side_find(src, bytes, SIDE_DEVICE, &here);
	if (result)
		return capture_refuse(stream, result);
	if (!there.device || !here.device)
		return copy_bytes(dst, SIDE_DEVICE, src, SIDE_DEVICE, bytes, stream, true);
	request_cuMemcpyPeerAsync(&r, dst, to->handle, src, from->handle, bytes, number_of(stream));
	return WATCH(copy_send(&r, there.unknown || here.unknown), .kind = PARACUDA_COPY,
		     .stream = stream, .bytes = bytes, .from = side_memory(&here),
		     .to = side_memory(&there));
}

/* No context is the current one. */
static CUresult find_contexts(CUcontext *dst, CUcontext *src)
{
	*dst = *dst ? *dst : context_current();
	*src = *src ? *src : context_current();
	if (!context_known(*dst) || !context_known(*src) || !context_alive(*dst) ||
	    !context_alive(*src))
		return CUDA_ERROR_INVALID_CONTEXT;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
				  CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
				  CUstream hStream)
{
	CUresult result;

	ENTER_CONTEXT();
	result = find_contexts(&dstContext, &srcContext);
	if (result)
		return result;
	if (dstContext->device == srcContext->device || !ByteCount || !dstDevice || !srcDevice)
		return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	return copy_across(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream);
}

/*
 * The copy comes after all work of both contexts, and before all that they get later: the driver
 * makes streams wait for that, this thread waits itself.
 */
EXPORT CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			     CUcontext srcContext, size_t ByteCount)
{
	CUresult result;

	ENTER_CONTEXT();
	result = find_contexts(&dstContext, &srcContext);
	if (result)
		return result;
	if (dstContext->device == srcContext->device)
		return cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
	result = cuCtxSynchronize_v2(dstContext);
	if (!result)
		result = cuCtxSynchronize_v2(srcContext);
	if (!result)
		result = cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
					   thread_stream(NULL));
	return result ? result : cuStreamSynchronize(thread_stream(NULL));
}

/* The worker finds out by the addresses on which devices both sides are. */
static CUresult without_contexts(const CUDA_MEMCPY3D_PEER *c, CUDA_MEMCPY3D *plain)
{
	const struct context *src = c->srcContext, *dst = c->dstContext;

	if ((src && !context_known(src)) || (dst && !context_known(dst)))
		return CUDA_ERROR_INVALID_CONTEXT;
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
	result = without_contexts(pCopy, &plain);
	return result ? result : cuMemcpy3D_v2(&plain);
}

EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D plain;
	CUresult result;

	ENTER_CONTEXT();
	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	result = without_contexts(pCopy, &plain);
	return result ? result : cuMemcpy3DAsync_v2(&plain, hStream);
}
