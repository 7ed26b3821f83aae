// SPDX-License-Identifier: Apache-2.0

// Sequences of launches as CUDA graphs: series of kernel nodes whose parameters are patched before
// each replay.
#ifndef PARACUDA_DRIVER_SERIES_H
#define PARACUDA_DRIVER_SERIES_H

#include "call.h"

enum { PC_SERIES_NODES = 128 };

// The driver's functions.
struct pc_series_api {
	void *create; // cuGraphCreate
	void *add_kernel; // cuGraphAddKernelNode_v2
	void *instantiate; // cuGraphInstantiateWithFlags
	void *set_params; // cuGraphExecKernelNodeSetParams_v2
	void *launch; // cuGraphLaunch
	void *exec_destroy; // cuGraphExecDestroy
	void *destroy; // cuGraphDestroy
};

// A series of n kernel nodes, instantiated.
struct pc_series {
	uint64_t graph;
	uint64_t exec;
	int32_t n;
	uint64_t node[PC_SERIES_NODES];
};

// pc_series_build makes a graph of n launches. On an error nothing is left.
int32_t pc_series_build(const struct pc_series_api *api, struct pc_series *g,
			const struct pc_launch *launch, int32_t n);

// pc_series_launch patches the nodes of the launches that have changed and launches the graph in
// their stream.
int32_t pc_series_launch(const struct pc_series_api *api, const struct pc_series *g,
			 const struct pc_launch *launch, const uint8_t *changed);

void pc_series_free(const struct pc_series_api *api, struct pc_series *g);

#endif
