/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that the driver makes of a graph, clones and child graphs, inherit what is kept of its
 * nodes.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/zz_generated_prototypes.h"
#include "graphs/graph.h"

/* Makes a node inherit what is kept of the node that it is a copy of. */
static void inherit_node(CUgraphNode from, CUgraphNode to, CUgraph graph)
{
	const struct node *n = node_find(from);
	CUgraph a, b;

	if (n && n->has_copy)
		node_keep_copy(to, graph, &n->copy);
	else if (n && n->child && !cuGraphChildGraphNodeGetGraph(from, &a) &&
		 !cuGraphChildGraphNodeGetGraph(to, &b))
		node_keep_child(to, graph, a, b);
}

/* Both graphs list their nodes in the same order. */
void node_inherit(CUgraph from, CUgraph to)
{
	size_t count = 0, same;
	CUgraphNode *list;

	if (!node_copies() || cuGraphGetNodes(from, NULL, &count) || !count)
		return;
	list = calloc(2 * count, sizeof(*list));
	same = count;
	if (list && !cuGraphGetNodes(from, list, &count) &&
	    !cuGraphGetNodes(to, list + count, &same) && same == count)
		for (size_t i = 0; i < count; i++)
			inherit_node(list[i], list[count + i], to);
	free(list);
}

void node_keep_child(CUgraphNode node, CUgraph graph, CUgraph from, CUgraph child)
{
	struct node *n;

	n = node_copies() ? node_keep(node) : NULL;
	if (!n)
		return;
	n->graph = number_of(graph);
	n->child = number_of(child);
	if (child != from)
		node_inherit(from, child);
}
