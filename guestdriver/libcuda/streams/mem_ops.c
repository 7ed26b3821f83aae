/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on memory in stream order. */
#define _GNU_SOURCE
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "streams/capture.h"
#include "streams/stream.h"

EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
				      CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	CUresult result;

	ENTER_CONTEXT();
	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_usable(stream);
	if (result)
		return result;
	if (count > PARACUDA_MAX_MEM_OPS || !paramArray || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!count)
		return CUDA_SUCCESS;
	return call_StreamMemOps(number_of(stream), paramArray, count * sizeof(*paramArray), flags);
}

static CUresult one(CUstream stream, uint32_t operation, CUdeviceptr address, uint64_t value,
		    unsigned flags)
{
	CUstreamBatchMemOpParams p = {
		.writeValue = { .operation = (int)operation,
				.address = address,
				.value64 = value,
				.flags = flags },
	};

	return cuStreamBatchMemOp_v2(stream, 1, &p, 0);
}

EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
					unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
					unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

EXPORT CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				       unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

EXPORT CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				       unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}
