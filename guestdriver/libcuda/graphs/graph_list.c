/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes and edges of graphs. A program asks for a list's size first, or has it filled up to the
 * size that it gives.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "graphs/graph.h"

/*
 * Gives a caller as much of a list of `count` as there is room for, and zeroes the rest of the
 * room.
 */
static void finish(void *list, size_t element, size_t *room, uint64_t count)
{
	if (list && *room > count)
		memset((uint8_t *)list + count * element, 0, (*room - count) * element);
	if (!list || *room > count)
		*room = count;
}

EXPORT CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	uint64_t count;
	CUresult result;

	ENTER();
	if (!numNodes)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuGraphGetNodes(number_of(hGraph), nodes,
				      nodes ? *numNodes * sizeof(*nodes) : 0, &count);
	if (!result)
		finish(nodes, sizeof(*nodes), numNodes, count);
	return result;
}

EXPORT CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	uint64_t count;
	CUresult result;

	ENTER();
	if (!numRootNodes)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_cuGraphGetRootNodes(number_of(hGraph), rootNodes,
					  rootNodes ? *numRootNodes * sizeof(*rootNodes) : 0,
					  &count);
	if (!result)
		finish(rootNodes, sizeof(*rootNodes), numRootNodes, count);
	return result;
}

/* Whether edges have data, which this form of the call can't tell. */
static bool is_lossy(const CUgraphEdgeData *edges, size_t count)
{
	static const CUgraphEdgeData none;

	for (size_t i = 0; i < count; i++)
		if (memcmp(&edges[i], &none, sizeof(none)))
			return true;
	return false;
}

EXPORT CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				   CUgraphEdgeData *edgeData, size_t *numEdges)
{
	CUgraphEdgeData *edges = edgeData;
	uint64_t count, second;
	size_t bytes, room;
	CUresult result;

	ENTER();
	if (!numEdges || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	room = from ? *numEdges : 0;
	bytes = room * sizeof(*from);
	if (room && !edges)
		edges = calloc(room, sizeof(*edges));
	if (room && !edges)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = call_cuGraphGetEdges_v2(number_of(hGraph), from, bytes, &count, to, bytes, &second,
					 edges, bytes);
	if (!result && !edgeData && is_lossy(edges, room < count ? room : count))
		result = CUDA_ERROR_LOSSY_QUERY;
	if (edges != edgeData)
		free(edges);
	if (!result)
		finish(from, sizeof(*from), numEdges, count);
	return result;
}

EXPORT CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				size_t *numEdges)
{
	return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

typedef CUresult neighbours_call(uint64_t node, void *nodes, size_t nodes_bytes, uint64_t *count,
				 void *edges, size_t edges_bytes);

static CUresult neighbours(neighbours_call *call, CUgraphNode node, CUgraphNode *nodes,
			   CUgraphEdgeData *edgeData, size_t *n)
{
	CUgraphEdgeData *edges = edgeData;
	uint64_t count;
	size_t room;
	CUresult result;

	ENTER();
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	room = nodes ? *n : 0;
	if (room && !edges)
		edges = calloc(room, sizeof(*edges));
	if (room && !edges)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = call(number_of(node), nodes, room * sizeof(*nodes), &count, edges,
		      room * sizeof(*edges));
	if (!result && !edgeData && is_lossy(edges, room < count ? room : count))
		result = CUDA_ERROR_LOSSY_QUERY;
	if (edges != edgeData)
		free(edges);
	if (!result)
		finish(nodes, sizeof(*nodes), n, count);
	return result;
}

EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
					      CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	return neighbours(call_cuGraphNodeGetDependencies_v2, hNode, dependencies, edgeData,
			  numDependencies);
}

EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
					   size_t *numDependencies)
{
	return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
						CUgraphEdgeData *edgeData,
						size_t *numDependentNodes)
{
	return neighbours(call_cuGraphNodeGetDependentNodes_v2, hNode, dependentNodes, edgeData,
			  numDependentNodes);
}

EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
					     size_t *numDependentNodes)
{
	return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}

typedef CUresult edges_call(uint64_t graph, const void *from, size_t from_bytes, const void *to,
			    size_t to_bytes, const void *data, size_t data_bytes);

/* Adds edges, or removes them. */
static CUresult change_edges(edges_call *call, CUgraph graph, const CUgraphNode *from,
			     const CUgraphNode *to, const CUgraphEdgeData *data, size_t edges)
{
	size_t bytes = edges * sizeof(*from);

	ENTER();
	if (!number_of(graph) || (edges && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	if (!edges)
		return CUDA_SUCCESS;
	return call(number_of(graph), from, bytes, to, bytes, data, bytes);
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					  const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					  size_t numDependencies)
{
	return change_edges(call_cuGraphAddDependencies_v2, hGraph, from, to, edgeData,
			    numDependencies);
}

EXPORT CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
				       const CUgraphNode *to, size_t numDependencies)
{
	return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					     const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					     size_t numDependencies)
{
	return change_edges(call_cuGraphRemoveDependencies_v2, hGraph, from, to, edgeData,
			    numDependencies);
}

EXPORT CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
					  const CUgraphNode *to, size_t numDependencies)
{
	return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}
