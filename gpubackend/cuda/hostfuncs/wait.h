// SPDX-License-Identifier: Apache-2.0

// Host functions that are called once.
#ifndef PARACUDA_HOSTFUNC_WAIT_H
#define PARACUDA_HOSTFUNC_WAIT_H

#include <stdint.h>

#include "pipe.h"

// A host function that announces itself and then holds its stream until it is released.
struct pc_wait;

// pc_wait_new makes one that writes token to the pipe when the stream reaches it.
struct pc_wait *pc_wait_new(struct pc_pipe *pipe, uint64_t token);
// pc_wait_launch queues it. The memory is kept until the stream has passed it and it has been
// released.
int32_t pc_wait_launch(void *launch_host_func, uint64_t stream, struct pc_wait *wait);
// pc_wait_release lets the stream go on. The caller doesn't touch wait again.
void pc_wait_release(struct pc_wait *wait);

#endif
