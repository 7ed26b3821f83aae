/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph in the language of Graphviz, as cuGraphDebugDotPrint writes it. The text is this
 * library's own.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "graphs/graph.h"

static const char *const names[] = {
	"KERNEL",	  "MEMCPY",	  "MEMSET",
	"HOST",		  "GRAPH",	  "EMPTY",
	"WAIT_EVENT",	  "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
	"EXT_SEMAS_WAIT", "MEM_ALLOC",	  "MEM_FREE",
	"BATCH_MEM_OP",	  "CONDITIONAL",
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static CUresult print_nodes(FILE *f, CUgraph graph)
{
	CUgraphNode *list;
	size_t n = 0;
	CUresult result = cuGraphGetNodes(graph, NULL, &n);

	list = calloc(n + 1, sizeof(*list));
	if (!result)
		result = list ? cuGraphGetNodes(graph, list, &n) : CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; !result && i < n; i++) {
		CUgraphNodeType type = 0;

		result = cuGraphNodeGetType(list[i], &type);
		if (!result)
			fprintf(f, "\tnode_%llx [label=\"%s\"];\n",
				(unsigned long long)number_of(list[i]),
				(unsigned)type < NAMES ? names[type] : "?");
	}
	free(list);
	return result;
}

static CUresult print_edges(FILE *f, CUgraph graph)
{
	CUgraphNode *list;
	CUgraphEdgeData *edges;
	size_t n = 0;
	CUresult result = cuGraphGetEdges(graph, NULL, NULL, &n);

	list = calloc(2 * n + 1, sizeof(*list));
	edges = calloc(n + 1, sizeof(*edges));
	if (!result && list && edges && n)
		result = cuGraphGetEdges_v2(graph, list, list + n, edges, &n);
	for (size_t i = 0; !result && list && i < n; i++)
		fprintf(f, "\tnode_%llx -> node_%llx;\n", (unsigned long long)number_of(list[i]),
			(unsigned long long)number_of(list[n + i]));
	free(list);
	free(edges);
	return result;
}

EXPORT CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	CUresult result;
	FILE *f;

	(void)flags;
	ENTER();
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	f = fopen(path, "w");
	if (!f)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(f, "digraph graph_%llx {\n", (unsigned long long)number_of(hGraph));
	result = print_nodes(f, hGraph);
	if (!result)
		result = print_edges(f, hGraph);
	fprintf(f, "}\n");
	return fclose(f) && !result ? CUDA_ERROR_OPERATING_SYSTEM : result;
}
