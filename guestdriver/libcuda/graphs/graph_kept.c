/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this library keeps of nodes. The host has a copy node as addresses; the program must get
 * back what it gave.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/table.h"
#include "graphs/graph.h"

/* The table has a lock of its own; the others are written atomically. */
static struct {
	struct table nodes;
	struct node *gone; /* nodes that are forgotten, whose child graphs are to be, too */
	bool any; /* a node's copy was ever kept: if not, copies of graphs needn't be looked at */
} state = { TABLE_INIT, NULL, false };

bool node_copies(void)
{
	return __atomic_load_n(&state.any, __ATOMIC_RELAXED);
}

struct node *node_find(CUgraphNode node)
{
	return table_find(&state.nodes, number_of(node));
}

struct node *node_keep(CUgraphNode node)
{
	struct node *n = node_find(node);

	if (!n && number_of(node)) {
		n = calloc(1, sizeof(*n));
		if (n && !table_put(&state.nodes, number_of(node), n)) {
			free(n);
			n = NULL;
		}
	}
	return n;
}

static bool of_graph(void *value, void *graph)
{
	return ((struct node *)value)->graph == *(uint64_t *)graph;
}

static void release(void *value)
{
	struct node *n = value;

	n->next = __atomic_load_n(&state.gone, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&state.gone, &n->next, n, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

static void forget(uint64_t graph)
{
	struct node *list, *n;

	table_purge(&state.nodes, of_graph, &graph, release);
	list = __atomic_exchange_n(&state.gone, NULL, __ATOMIC_ACQUIRE);
	while ((n = list)) {
		list = n->next;
		if (n->child)
			forget(n->child);
		free(n->kept);
		free(n);
	}
}

void node_forget_graph(CUgraph graph)
{
	forget(number_of(graph));
}

void node_keep_copy(CUgraphNode node, CUgraph graph, const CUDA_MEMCPY3D *copy)
{
	struct node *n = node_keep(node);

	if (!n)
		return;
	if (graph)
		n->graph = number_of(graph);
	n->has_copy = true;
	n->copy = *copy;
	__atomic_store_n(&state.any, true, __ATOMIC_RELAXED);
}
