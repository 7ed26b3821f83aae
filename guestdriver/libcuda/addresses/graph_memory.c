/* SPDX-License-Identifier: Apache-2.0 */
#include "addresses/graph_memory.h"

#include "addresses/memory_map.h"
#include "base/table.h"

CUresult graph_memory_enter(uint64_t base, uint64_t bytes)
{
	struct context *c = context_owner();
	struct memory m = {
		.base = base,
		.bytes = bytes,
		.kind = MEMORY_DEVICE,
		.device = c->device,
		.context = c,
		.graph = true,
	};

	if (!base || base + bytes < base)
		return CUDA_ERROR_UNKNOWN;
	return memory_enter(&m) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* By graph. Without memory for a note, an error comes late, no more. */
static struct table noted = TABLE_INIT;

void graph_memory_note(uint64_t graph)
{
	if (graph)
		table_put(&noted, graph, &noted);
}

bool graph_has_memory(uint64_t graph)
{
	return table_find(&noted, graph) != NULL;
}

void graph_memory_forget(uint64_t graph)
{
	if (graph_has_memory(graph))
		table_take(&noted, graph);
}
