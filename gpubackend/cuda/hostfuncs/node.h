// SPDX-License-Identifier: Apache-2.0

// Host functions of graphs: each is called as often as its graph runs.
#ifndef PARACUDA_HOSTFUNC_NODE_H
#define PARACUDA_HOSTFUNC_NODE_H

#include <stdint.h>

#include "pipe.h"

// What the driver keeps with a node.
struct pc_node {
	uint64_t token;
	struct pc_pipe *pipe;
};

// A call of such a function, while its stream waits.
struct pc_due;

// pc_node_run is what the driver calls, on a thread of its own: it writes the address of a pc_due,
// with the top bit set, to the pipe, and holds the stream until that is released.
void pc_node_run(void *node);

uint64_t pc_due_token(const struct pc_due *due);
// pc_due_release lets the stream go on. The caller doesn't touch due again.
void pc_due_release(struct pc_due *due);

// pc_node_launch puts the function into a stream.
int32_t pc_node_launch(void *launch_host_func, uint64_t stream, struct pc_node *node);

#endif
