/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of streams. The priority is one of them, and is known here, so questions about it are
 * answered here.
 */
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "streams/capture.h"
#include "streams/stream.h"

static void follow_priority(CUstream stream)
{
	struct handle *h = handle_find(HANDLE_STREAM, stream);
	CUstreamAttrValue value;
	int priority;

	if (call_cuStreamGetAttribute(number_of(stream), CU_LAUNCH_ATTRIBUTE_PRIORITY, &value,
				      sizeof(value)))
		return;
	memcpy(&priority, &value, sizeof(priority));
	if (h)
		h->priority = priority;
	else
		context_current()->priority[number_of(stream) == CU_STREAM_PER_THREAD] = priority;
}

#define ENTER_ATTRIBUTE(stream, value)                    \
	do {                                              \
		CUresult captured_;                       \
		ENTER_CONTEXT();                          \
		if (!stream_known(stream))                \
			return CUDA_ERROR_INVALID_HANDLE; \
		captured_ = capture_usable(stream);       \
		if (captured_)                            \
			return captured_;                 \
		if (!(value))                             \
			return CUDA_ERROR_INVALID_VALUE;  \
	} while (0)

EXPORT CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
				     CUstreamAttrValue *value_out)
{
	ENTER_ATTRIBUTE(hStream, value_out);
	return call_cuStreamGetAttribute(number_of(hStream), (uint64_t)attr, value_out,
					 sizeof(*value_out));
}

EXPORT CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
				     const CUstreamAttrValue *value)
{
	CUresult result;

	ENTER_ATTRIBUTE(hStream, value);
	result = call_cuStreamSetAttribute(number_of(hStream), (uint64_t)attr, value,
					   sizeof(*value));
	if (!result && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		follow_priority(hStream);
	return result;
}

EXPORT CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	CUresult result;

	ENTER_CONTEXT();
	if (!stream_known(dst) || !stream_known(src))
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuStreamCopyAttributes(number_of(dst), number_of(src));
	if (!result)
		follow_priority(dst);
	return result;
}
