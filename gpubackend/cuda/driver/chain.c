// SPDX-License-Identifier: Apache-2.0

#include "chain.h"

typedef uint64_t w;

// CUDA_KERNEL_NODE_PARAMS_v2.
struct kernel_node_params {
	uint64_t function;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;
	uint32_t pad;
	void **parameters;
	void **extra;
	uint64_t kernel;
	uint64_t context;
};

_Static_assert(sizeof(struct kernel_node_params) == 72, "CUDA_KERNEL_NODE_PARAMS_v2");

// params fills p, whose parameters are packed in extra.
static void params(struct kernel_node_params *p, const struct pc_launch *l, void **extra, size_t *bytes)
{
	*bytes = l->parameter_bytes;
	// CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END
	extra[0] = (void *)1;
	extra[1] = (void *)(uintptr_t)l->parameters;
	extra[2] = (void *)2;
	extra[3] = bytes;
	extra[4] = (void *)0;
	*p = (struct kernel_node_params){
		.function = l->function,
		.grid = {l->grid[0], l->grid[1], l->grid[2]},
		.block = {l->block[0], l->block[1], l->block[2]},
		.shared = l->shared,
		.extra = *bytes ? extra : NULL,
	};
}

static int32_t add(const struct pc_chain_api *api, struct pc_chain *g, const struct pc_launch *l, int32_t i)
{
	struct kernel_node_params p;
	void *extra[5];
	size_t bytes;

	params(&p, l, extra, &bytes);
	return ((int32_t (*)(w *, w, const w *, size_t, const struct kernel_node_params *))api->add_kernel)(
		&g->node[i], g->graph, i ? &g->node[i - 1] : NULL, i ? 1 : 0, &p);
}

int32_t pc_chain_build(const struct pc_chain_api *api, struct pc_chain *g, const struct pc_launch *launch, int32_t n)
{
	int32_t result = ((int32_t (*)(w *, uint32_t))api->create)(&g->graph, 0);

	if (result)
		return result;
	for (int32_t i = 0; !result && i < n; i++)
		result = add(api, g, &launch[i], i);
	if (!result)
		result = ((int32_t (*)(w *, w, unsigned long long))api->instantiate)(&g->exec, g->graph, 0);
	if (result) {
		((int32_t (*)(w))api->destroy)(g->graph);
		return result;
	}
	g->n = n;
	return 0;
}

int32_t pc_chain_replay(const struct pc_chain_api *api, const struct pc_chain *g, const struct pc_launch *launch,
			const uint8_t *changed)
{
	for (int32_t i = 0; i < g->n; i++) {
		struct kernel_node_params p;
		void *extra[5];
		size_t bytes;
		int32_t result;

		if (!changed[i])
			continue;
		params(&p, &launch[i], extra, &bytes);
		result = ((int32_t (*)(w, w, const struct kernel_node_params *))api->set_params)(g->exec, g->node[i], &p);
		if (result)
			return result;
	}
	return ((int32_t (*)(w, w))api->launch)(g->exec, launch[0].stream);
}

void pc_chain_free(const struct pc_chain_api *api, struct pc_chain *g)
{
	((int32_t (*)(w))api->exec_destroy)(g->exec);
	((int32_t (*)(w))api->destroy)(g->graph);
}
