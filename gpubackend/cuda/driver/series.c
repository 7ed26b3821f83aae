// SPDX-License-Identifier: Apache-2.0

#include "series.h"

typedef uint64_t w;

// params fills p, whose parameters are packed in extra.
static void params(CUDA_KERNEL_NODE_PARAMS *p, const struct pc_launch *l, void **extra,
		   size_t *bytes)
{
	*bytes = l->parameter_bytes;
	extra[0] = (void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT;
	extra[1] = (void *)(uintptr_t)l->parameters;
	extra[2] = (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT;
	extra[3] = bytes;
	extra[4] = (void *)CU_LAUNCH_PARAM_END_AS_INT;
	*p = (CUDA_KERNEL_NODE_PARAMS){
		.func = l->function,
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared,
		.extra = *bytes ? extra : NULL,
	};
}

static int32_t add(const struct pc_series_api *api, struct pc_series *g, const struct pc_launch *l,
		   int32_t i)
{
	CUDA_KERNEL_NODE_PARAMS p;
	void *extra[5];
	size_t bytes;

	params(&p, l, extra, &bytes);
	return ((int32_t(*)(w *, w, const w *, size_t,
			    const CUDA_KERNEL_NODE_PARAMS *))api->add_kernel)(
		&g->node[i], g->graph, i ? &g->node[i - 1] : NULL, i ? 1 : 0, &p);
}

int32_t pc_series_build(const struct pc_series_api *api, struct pc_series *g,
			const struct pc_launch *launch, int32_t n)
{
	int32_t result = ((int32_t(*)(w *, uint32_t))api->create)(&g->graph, 0);

	if (result)
		return result;
	for (int32_t i = 0; !result && i < n; i++)
		result = add(api, g, &launch[i], i);
	if (!result)
		result = ((int32_t(*)(w *, w, unsigned long long))api->instantiate)(&g->exec,
										    g->graph, 0);
	if (result) {
		((int32_t(*)(w))api->destroy)(g->graph);
		return result;
	}
	g->n = n;
	return 0;
}

int32_t pc_series_launch(const struct pc_series_api *api, const struct pc_series *g,
			 const struct pc_launch *launch, const uint8_t *changed)
{
	for (int32_t i = 0; i < g->n; i++) {
		CUDA_KERNEL_NODE_PARAMS p;
		void *extra[5];
		size_t bytes;
		int32_t result;

		if (!changed[i])
			continue;
		params(&p, &launch[i], extra, &bytes);
		result = ((int32_t(*)(w, w, const CUDA_KERNEL_NODE_PARAMS *))api->set_params)(
			g->exec, g->node[i], &p);
		if (result)
			return result;
	}
	return ((int32_t(*)(w, w))api->launch)(g->exec, launch[0].stream);
}

void pc_series_free(const struct pc_series_api *api, struct pc_series *g)
{
	((int32_t(*)(w))api->exec_destroy)(g->exec);
	((int32_t(*)(w))api->destroy)(g->graph);
}
