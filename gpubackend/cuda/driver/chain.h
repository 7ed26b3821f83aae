// SPDX-License-Identifier: Apache-2.0

// Sequences of launches as CUDA graphs: chains of kernel nodes whose parameters are patched before
// each replay.
#ifndef PARACUDA_DRIVER_CHAIN_H
#define PARACUDA_DRIVER_CHAIN_H

#include "call.h"

enum { PC_CHAIN_NODES = 128 };

// The driver's functions.
struct pc_chain_api {
	void *create; // cuGraphCreate
	void *add_kernel; // cuGraphAddKernelNode_v2
	void *instantiate; // cuGraphInstantiateWithFlags
	void *set_params; // cuGraphExecKernelNodeSetParams_v2
	void *launch; // cuGraphLaunch
	void *exec_destroy; // cuGraphExecDestroy
	void *destroy; // cuGraphDestroy
};

// A chain of n kernel nodes, instantiated.
struct pc_chain {
	uint64_t graph;
	uint64_t exec;
	int32_t n;
	uint64_t node[PC_CHAIN_NODES];
};

// pc_chain_build makes a graph of n launches. On an error nothing is left.
int32_t pc_chain_build(const struct pc_chain_api *api, struct pc_chain *g,
		       const struct pc_launch *launch, int32_t n);

// pc_chain_replay patches the nodes of the launches that have changed and launches the graph in
// their stream.
int32_t pc_chain_replay(const struct pc_chain_api *api, const struct pc_chain *g,
			const struct pc_launch *launch, const uint8_t *changed);

void pc_chain_free(const struct pc_chain_api *api, struct pc_chain *g);

#endif
