/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that graphs allocate. */
#ifndef PARACUDA_GRAPH_MEMORY_H
#define PARACUDA_GRAPH_MEMORY_H

#include <stdbool.h>

#include "abi/cuda_abi.h"

/* Enters memory that a graph allocates. */
CUresult graph_memory_enter(uint64_t base, uint64_t bytes);

/* A graph allocates or frees memory, which a launch may refuse to do; 0 means no graph. */
void graph_memory_note(uint64_t graph);
bool graph_has_memory(uint64_t graph);
void graph_memory_forget(uint64_t graph);

#endif
