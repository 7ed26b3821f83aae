// SPDX-License-Identifier: Apache-2.0

// How threads of the driver tell Go of host functions.
#ifndef PARACUDA_HOSTFUNC_PIPE_H
#define PARACUDA_HOSTFUNC_PIPE_H

#include <stdint.h>

// The end of a pipe that is written to. Its memory stays: the driver may call a function of a graph
// as long as it is loaded.
struct pc_pipe;

// pc_pipe_new takes the descriptor over, unless it returns NULL.
struct pc_pipe *pc_pipe_new(int32_t fd);
// pc_pipe_write writes a word, and says whether it did: not if the pipe is closed.
int32_t pc_pipe_write(struct pc_pipe *pipe, uint64_t word);
// pc_pipe_close closes the descriptor once nobody writes. Nobody reads any more, so nobody waits
// for room.
void pc_pipe_close(struct pc_pipe *pipe);

#endif
