/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs, which live on the host. A node's parameters travel as a record (docs/protocol.md,
 * "Graphs").
 */
#ifndef PARACUDA_GRAPH_H
#define PARACUDA_GRAPH_H

#include <stdbool.h>

#include "context/handle.h"

/* A record: words, the first of which is the node's type, and bytes behind them. */
struct record {
	uint64_t *word;
	size_t bytes;
	uint64_t small[64];
};

/* The record of node parameters; record_free gives its memory back. */
CUresult record_make(struct record *r, const CUgraphNodeParams *p);
void record_free(struct record *r);

/*
 * The parameters of a node as the host has them. What they point to stays until the next call for
 * that node.
 */
CUresult node_params(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *p);

/* What this library keeps of a node. */
struct node {
	uint64_t graph; /* 0: not known */
	uint64_t child; /* its child graph's, 0: not known */
	bool has_copy;
	CUDA_MEMCPY3D copy; /* as the program gave it */
	void *kept; /* what parameters that were asked for point to */
	struct node *next; /* of those that are forgotten */
};

/* What is kept of a node, made if need be; NULL when there is no memory. */
struct node *node_keep(CUgraphNode node);
struct node *node_find(CUgraphNode node);
void node_forget_graph(CUgraph graph);

/* Whether anything is kept of any copy. */
bool node_copies(void);

/*
 * Keeps what the program said of a copy. A graph of NULL: the one that the node is known to be in.
 */
void node_keep_copy(CUgraphNode node, CUgraph graph, const CUDA_MEMCPY3D *copy);

/* Keeps which child graph a node has. This is a copy of another graph, or that graph itself. */
void node_keep_child(CUgraphNode node, CUgraph graph, CUgraph from, CUgraph child);

/* What is kept of a graph's nodes is kept of those of its copy, too. */
void node_inherit(CUgraph from, CUgraph to);

/* Enters an executable graph that the worker has made of a graph. */
CUresult exec_enter(CUgraphExec *out, uint64_t exec, CUgraph graph);

/* Copies a graph's references to user objects to another; whether there are any. */
bool user_objects_inherit(uint64_t owner, uint64_t from);

/* Takes a graph's references from it; they hold until they are released. */
struct reference *user_objects_take(uint64_t owner);
void user_objects_release(struct reference *taken);

/*
 * Turns a copy's descriptor into addresses: dst, pitch, slice, src, pitch, slice, width, height,
 * depth.
 */
struct node_memcpy;
CUresult graph_copy(const CUDA_MEMCPY3D *c, struct node_memcpy *n);

#endif
