// SPDX-License-Identifier: Apache-2.0

// Sequences of launches as CUDA graphs: chains of kernel nodes whose parameters are patched before each replay.
#ifndef PARACUDA_CUDA_REPLAY_H
#define PARACUDA_CUDA_REPLAY_H

#include "driver.h"

enum { PC_GRAPH_NODES = 128 };

// The driver's functions.
struct pc_graph_api {
	void *create;       // cuGraphCreate
	void *add_kernel;   // cuGraphAddKernelNode_v2
	void *instantiate;  // cuGraphInstantiateWithFlags
	void *set_params;   // cuGraphExecKernelNodeSetParams_v2
	void *launch;       // cuGraphLaunch
	void *exec_destroy; // cuGraphExecDestroy
	void *destroy;      // cuGraphDestroy
};

// A chain of n kernel nodes, instantiated.
struct pc_graph {
	uint64_t graph;
	uint64_t exec;
	int32_t n;
	uint64_t node[PC_GRAPH_NODES];
};

// pc_graph_build makes a graph of n launches. On an error nothing is left.
int32_t pc_graph_build(const struct pc_graph_api *api, struct pc_graph *g, const struct pc_launch *launch, int32_t n);

// pc_graph_replay patches the nodes of the launches that have changed and launches the graph in their stream.
int32_t pc_graph_replay(const struct pc_graph_api *api, const struct pc_graph *g, const struct pc_launch *launch,
			const uint8_t *changed);

void pc_graph_free(const struct pc_graph_api *api, struct pc_graph *g);

#endif
