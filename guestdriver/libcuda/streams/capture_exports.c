/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of captures. */
#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "streams/capture.h"
#include "streams/stream.h"

static CUresult check_begin(CUstream stream, int mode)
{
	if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	/* The legacy stream can't be captured. */
	return number_of(stream) <= CU_STREAM_LEGACY ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED :
						       CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	CUresult result;

	ENTER_CONTEXT();
	result = check_begin(hStream, mode);
	if (!result)
		result = call_cuStreamBeginCapture_v2(number_of(hStream), (uint64_t)mode);
	return result ? result : capture_enter(hStream, mode);
}

EXPORT CUresult cuStreamBeginCapture(CUstream hStream)
{
	return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					    const CUgraphNode *dependencies,
					    const CUgraphEdgeData *dependencyData,
					    size_t numDependencies, CUstreamCaptureMode mode)
{
	size_t bytes = numDependencies * 8;
	CUresult result;

	ENTER_CONTEXT();
	result = check_begin(hStream, mode);
	if (!result && (!hGraph || (numDependencies && !dependencies)))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result && capture_of(hStream))
		result = CUDA_ERROR_ILLEGAL_STATE;
	if (!result)
		result = call_cuStreamBeginCaptureToGraph(
			number_of(hStream), number_of(hGraph), bytes ? dependencies : NULL, bytes,
			bytes ? dependencyData : NULL, bytes, (uint64_t)mode);
	return result ? result : capture_enter(hStream, mode);
}

EXPORT CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	uint64_t graph;
	CUresult result;

	ENTER_CONTEXT();
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (capture_is_others(hStream))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	result = call_cuStreamEndCapture(number_of(hStream), &graph);
	if (result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED && result != CUDA_ERROR_ILLEGAL_STATE)
		capture_forget_stream(hStream);
	if (phGraph) /* a program may already have the graph, or not want it */
		*phGraph = result ? NULL : (CUgraph)(uintptr_t)graph;
	return result;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct thread *t = thread_peek();
	int old = t->capture_mode;

	ENTER();
	/* Unknown modes are accepted, and forbid what the thread's own captures do. */
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	t->capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
