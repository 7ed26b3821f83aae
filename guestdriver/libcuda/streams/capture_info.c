/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream is capturing. While no stream captures, nobody is asked. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "streams/capture.h"
#include "streams/stream.h"

unsigned capture_count; /* capture.c counts */

#define NODES_FIRST 16

/* The arrays that were given out last: they stay until the thread asks again. */
static _Thread_local struct {
	CUgraphNode *nodes;
	CUgraphEdgeData *edges;
	size_t room;
} given;

struct info {
	uint64_t status, id, graph, count;
};

static bool grow(size_t room)
{
	CUgraphNode *nodes;
	CUgraphEdgeData *edges;

	if (room <= given.room)
		return true;
	nodes = realloc(given.nodes, room * sizeof(*nodes));
	if (nodes)
		given.nodes = nodes;
	edges = realloc(given.edges, room * sizeof(*edges));
	if (edges)
		given.edges = edges;
	if (!nodes || !edges)
		return false;
	given.room = room;
	return true;
}

static CUresult ask(CUstream stream, bool lists, struct info *i)
{
	size_t bytes;
	CUresult result;

	if (lists && !grow(NODES_FIRST))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (;;) {
		bytes = lists ? given.room * sizeof(CUgraphNode) : 0;
		result = call_StreamCaptureInfo(number_of(stream), &i->status, &i->id, &i->graph,
						given.nodes, bytes, &i->count, given.edges, bytes);
		if (result || !lists || i->count <= given.room)
			return result;
		if (i->count > 1u << 24 || !grow(i->count))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

bool capture_of(CUstream stream)
{
	struct info i = { 0 };

	return capture_active() && !ask(stream, false, &i) &&
	       i.status != CU_STREAM_CAPTURE_STATUS_NONE;
}

uint64_t capture_graph(CUstream stream)
{
	struct info i = { 0 };

	return capture_active() && !ask(stream, false, &i) &&
			       i.status == CU_STREAM_CAPTURE_STATUS_ACTIVE ?
		       i.graph :
		       0;
}

CUresult capture_usable(CUstream stream)
{
	struct info i = { 0 };
	CUresult result;

	if (!capture_active())
		return CUDA_SUCCESS;
	result = ask(stream, false, &i);
	if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		call_cuStreamQuery(
			number_of(stream)); /* the question alone does no harm, as other calls do */
	if (!result && i.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return result;
}

CUresult capture_refuse(CUstream stream, CUresult result)
{
	CUresult before = stream_known(stream) ? capture_usable(stream) : CUDA_ERROR_INVALID_HANDLE;

	return before ? before : result;
}

CUresult capture_spoil(CUstream stream, CUresult result)
{
	if (capture_of(stream))
		call_cuStreamQuery(number_of(stream));
	return result;
}

CUresult capture_question(CUstream stream)
{
	CUresult result = capture_usable(stream);

	if (result && result != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
		return result;
	if (!capture_of(stream))
		return CUDA_SUCCESS;
	return capture_spoil(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

EXPORT CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL);
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				       cuuint64_t *id_out)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL,
					 NULL);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream,
					  CUstreamCaptureStatus *captureStatus_out,
					  cuuint64_t *id_out, CUgraph *graph_out,
					  const CUgraphNode **dependencies_out,
					  const CUgraphEdgeData **edgeData_out,
					  size_t *numDependencies_out)
{
	struct info i = { 0 };
	CUresult result;

	ENTER_CONTEXT();
	if (!captureStatus_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!capture_active()) {
		*captureStatus_out = CU_STREAM_CAPTURE_STATUS_NONE;
		return CUDA_SUCCESS;
	}
	result = ask(hStream, dependencies_out || edgeData_out || numDependencies_out, &i);
	if (result)
		return result;
	*captureStatus_out = (CUstreamCaptureStatus)i.status;
	if (i.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id_out)
		*id_out = i.id;
	if (graph_out)
		*graph_out = (CUgraph)(uintptr_t)i.graph;
	if (dependencies_out)
		*dependencies_out = given.nodes;
	if (edgeData_out)
		*edgeData_out = given.edges;
	if (numDependencies_out)
		*numDependencies_out = i.count;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream,
					  CUstreamCaptureStatus *captureStatus_out,
					  cuuint64_t *id_out, CUgraph *graph_out,
					  const CUgraphNode **dependencies_out,
					  size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
					 dependencies_out, NULL, numDependencies_out);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
						     const CUgraphEdgeData *dependencyData,
						     size_t numDependencies, unsigned int flags)
{
	size_t bytes = numDependencies * sizeof(CUgraphNode);
	CUresult result;

	ENTER_CONTEXT();
	if (!stream_known(hStream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = capture_usable(hStream);
	if (result)
		return result;
	if (!capture_of(hStream))
		return CUDA_ERROR_ILLEGAL_STATE;
	if (!is_capture_update(flags) || (numDependencies && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	return call_cuStreamUpdateCaptureDependencies_v2(
		number_of(hStream), bytes ? dependencies : NULL, bytes,
		bytes ? dependencyData : NULL, bytes, flags);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
						  size_t numDependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
						    flags);
}
