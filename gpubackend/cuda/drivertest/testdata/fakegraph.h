// SPDX-License-Identifier: Apache-2.0

// Captures and graphs of the fake: copies, in the order in which they were captured. A copy whose
// host memory is registered when it is captured works with that registration only; the driver's do.

struct copy {
	void *to;
	const void *from;
	u64 n, to_id, from_id;
};
typedef CUDA_MEM_ALLOC_NODE_PARAMS allocation; // a node; without bytes it is an empty one
struct host {
	void (*f)(void *);
	void *data;
	int *running;
};
struct graph {
	struct copy copy[16];
	int n;
	allocation *node[16];
	int nodes, captured;
	struct host host; // the only one
	int running; // it, of a launch
};

// Memory of graphs: every graph frees what it allocates before it ends.
static u64 graph_used, graph_reserved;
API CUresult fake_graph_used(u64 n)
{
	graph_used = n;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetGraphMemAttribute(int d, int a, u64 *v)
{
	*v = a == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ? graph_used : graph_reserved;
	return d || (a != CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT &&
		     a != CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) ?
		       CUDA_ERROR_INVALID_VALUE :
		       CUDA_SUCCESS;
}

API CUresult cuDeviceGraphMemTrim(int d)
{
	COUNT;
	graph_reserved = graph_used;
	return d ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetType(allocation *n, int *type)
{
	*type = n->bytesize ? CU_GRAPH_NODE_TYPE_MEM_ALLOC : CU_GRAPH_NODE_TYPE_EMPTY;
	return CUDA_SUCCESS;
}

API CUresult cuGraphMemAllocNodeGetParams(allocation *n, allocation *to)
{
	*to = *n;
	return CUDA_SUCCESS;
}

API CUresult cuGraphGetNodes(const struct graph *g, allocation **to, size_t *n)
{
	if (to)
		memcpy(to, g->node, *n * sizeof(*to));
	*n = (size_t)g->nodes;
	return CUDA_SUCCESS;
}

static CUresult add_allocation(void **node, struct graph *g, allocation *p)
{
	allocation *n = malloc(sizeof(*n));
	*n = *p;
	p->dptr = 0x7000;
	if (g->nodes == 16 || !n->bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	*node = g->node[g->nodes++] = n;
	return CUDA_SUCCESS;
}

static void allocate_of_graph(const struct graph *e)
{
	u64 sum = graph_used;
	for (int i = 0; i < e->nodes; i++)
		sum += e->node[i]->bytesize;
	if (sum > graph_reserved)
		graph_reserved = sum;
}

// What was allocated at the only address that graphs have is freed.
static CUresult free_of_graph(u64 p)
{
	if (p != 0x7000 || !graph_used)
		return CUDA_ERROR_INVALID_VALUE;
	graph_used = 0;
	return CUDA_SUCCESS;
}

API CUresult cuMemFree_v2(u64 p)
{
	IN_CONTEXT;
	return free_of_graph(p);
}

API CUresult cuMemFreeAsync(u64 p, void *s)
{
	IN_CONTEXT;
	return s == (void *)CU_STREAM_PER_THREAD ? free_of_graph(p) : CUDA_ERROR_INVALID_VALUE;
}

static struct stream *capturing(void *s)
{
	struct stream *x = stream_of(s);
	return x->graph && !x->graph->captured ? x : NULL;
}

static int recorded(void *st, void *d, const void *s, u64 n)
{
	struct stream *x = capturing(st);
	if (!x)
		return 0;
	struct graph *g = x->graph;
	if (g->n < 16)
		g->copy[g->n++] =
			(struct copy){ d, s, n, registration((u64)d), registration((u64)s) };
	return 1;
}

API CUresult cuStreamBeginCapture_v2(void *s, int mode)
{
	IN_CONTEXT;
	if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if ((u64)s <= CU_STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (capturing(s))
		return CUDA_ERROR_ILLEGAL_STATE;
	stream_of(s)->graph = calloc(1, sizeof(struct graph));
	return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(void *s, int *status)
{
	IN_CONTEXT;
	*status = capturing(s) != NULL;
	return CUDA_SUCCESS;
}

API CUresult cuStreamEndCapture(void *s, struct graph **g)
{
	IN_CONTEXT;
	if (!capturing(s))
		return CUDA_ERROR_ILLEGAL_STATE;
	*g = stream_of(s)->graph;
	(*g)->captured = 1; // in all streams that had joined
	return CUDA_SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(struct graph **e, struct graph *g, u64 flags)
{
	IN_CONTEXT;
	*e = malloc(sizeof(**e));
	**e = *g;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuGraphExecDestroy(struct graph *e)
{
	IN_CONTEXT;
	free(e);
	return CUDA_SUCCESS;
}

API CUresult cuGraphDestroy(struct graph *g)
{
	COUNT;
	if (!g->captured)
		free(g);
	return CUDA_SUCCESS;
}

// A graph's host function runs on a thread; a launch waits in here for that of the one before.
static void *host_caller(void *p)
{
	const struct host *h = p;
	h->f(h->data);
	__atomic_store_n(h->running, 0, __ATOMIC_RELEASE);
	return NULL;
}

static void run_host(struct graph *e)
{
	pthread_t t;
	if (!e->host.f)
		return;
	while (__atomic_exchange_n(&e->running, 1, __ATOMIC_ACQUIRE))
		usleep(100);
	e->host.running = &e->running;
	if (pthread_create(&t, NULL, host_caller, &e->host) == 0)
		pthread_detach(t);
}

API CUresult cuGraphLaunch(struct graph *e, void *s)
{
	IN_CONTEXT;
	if (capturing(s))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	allocate_of_graph(e);
	run_host(e);
	for (const struct copy *c = e->copy; c < e->copy + e->n; c++) {
		if ((c->to_id && c->to_id != registration((u64)c->to)) ||
		    (c->from_id && c->from_id != registration((u64)c->from))) {
			sticky = CUDA_ERROR_LAUNCH_FAILED; // shows when the work is waited for
			return CUDA_SUCCESS;
		}
		gpu_copy(c->to, c->from, c->n);
	}
	return CUDA_SUCCESS;
}

API CUresult cuGraphCreate(struct graph **g, unsigned flags)
{
	COUNT;
	*g = calloc(1, sizeof(**g));
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuGraphConditionalHandleCreate(u64 *h, const struct graph *g, const void *ctx,
					    unsigned value, unsigned flags)
{
	IN_CONTEXT;
	*h = 0xc000 + value;
	return g && ctx == current && flags <= CU_GRAPH_COND_ASSIGN_DEFAULT ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_conditional(void **node, CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	if (p->ctx != current || p->phGraph_out || p->size > 4)
		return CUDA_ERROR_INVALID_VALUE;
	*node = p->phGraph_out = calloc(p->size, sizeof(*p->phGraph_out));
	for (unsigned i = 0; i < p->size; i++)
		cuGraphCreate(&p->phGraph_out[i], 0);
	return p->handle == 0xc000 + (u64)p->type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Allocation, host and conditional nodes only. The array of a conditional node's bodies is the
// driver's.
API CUresult cuGraphAddNode_v2(void **node, struct graph *g, void *const *after, const void *edges,
			       size_t n, CUgraphNodeParams *p)
{
	IN_CONTEXT;
	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_allocation(node, g, &p->alloc);
	case CU_GRAPH_NODE_TYPE_HOST:
		*node = &g->host;
		g->host.f = p->host.fn;
		g->host.data = p->host.userData;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return after || edges || n ? CUDA_ERROR_INVALID_VALUE :
					     add_conditional(node, &p->conditional);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

// Kernel nodes do nothing here: they only let launches be replayed.
API CUresult cuGraphAddKernelNode_v2(void **node, struct graph *g, void *const *after, size_t n,
				     const void *p)
{
	IN_CONTEXT;
	*node = g;
	return n > 1 || (n && !*after) || !p ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuGraphExecKernelNodeSetParams_v2(struct graph *e, const void *node, const void *p)
{
	IN_CONTEXT;
	return !e || !node || !p ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
