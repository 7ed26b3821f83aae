// SPDX-License-Identifier: Apache-2.0

// Captures and graphs of the fake. A graph's nodes run in the order in which they were added. A copy
// works with those registrations of host memory only that there are when its node is made, or set;
// the driver's do.

typedef CUDA_MEM_ALLOC_NODE_PARAMS allocation;
struct node {
	int type; // all that is a node begins with it
	CUDA_MEMCPY3D copy;
	u64 to_id, from_id;
	allocation alloc;
};
struct host {
	int type;
	void (*f)(void *);
	void *data;
	int *running;
};
struct graph {
	int type; // it is its own kernel node
	struct node *node[16];
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

API CUresult cuGraphNodeGetType(const struct node *n, int *type)
{
	*type = n->type;
	return CUDA_SUCCESS;
}

API CUresult cuGraphMemAllocNodeGetParams(const struct node *n, allocation *to)
{
	*to = n->alloc;
	return CUDA_SUCCESS;
}

API CUresult cuGraphMemcpyNodeGetParams(const struct node *n, CUDA_MEMCPY3D *to)
{
	*to = n->copy;
	return CUDA_SUCCESS;
}

API CUresult cuGraphGetNodes(const struct graph *g, struct node **to, size_t *n)
{
	size_t others = (size_t)g->nodes;

	if (to)
		memcpy(to, g->node, others * sizeof(*to));
	if (to && g->host.f && *n > others)
		to[others] = (struct node *)&g->host;
	*n = others + !!g->host.f;
	return CUDA_SUCCESS;
}

API CUresult cuGraphHostNodeGetParams(const struct host *h, CUDA_HOST_NODE_PARAMS *to)
{
	to->fn = h->f;
	to->userData = h->data;
	return CUDA_SUCCESS;
}

// Nobody is told of edges.
API CUresult cuGraphGetEdges_v2(const struct graph *g, void **from, void **to, void *edges,
				size_t *n)
{
	(void)from;
	(void)to;
	(void)edges;
	*n = 0;
	return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct node *add_node(struct graph *g, int type)
{
	struct node *n = calloc(1, sizeof(*n));
	n->type = type;
	return g->node[g->nodes++] = n;
}

static CUresult add_allocation(void **node, struct graph *g, allocation *p)
{
	if (g->nodes == 16 || !p->bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	struct node *n = *node = add_node(g, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	n->alloc = *p;
	p->dptr = 0x7000;
	return CUDA_SUCCESS;
}

static CUresult set_copy(struct node *n, const CUDA_MEMCPY3D *c)
{
	if (c->Height > 1 || c->Depth > 1 || !places(c->srcMemoryType, c->srcDevice) ||
	    !places(c->dstMemoryType, c->dstDevice))
		return CUDA_ERROR_INVALID_VALUE;
	n->copy = *c;
	n->to_id = registration(c->dstDevice);
	n->from_id = registration(c->srcDevice);
	return CUDA_SUCCESS;
}

static CUresult add_copy(void **node, struct graph *g, const CUDA_MEMCPY3D *c)
{
	return g->nodes == 16 ? CUDA_ERROR_INVALID_VALUE :
				set_copy(*node = add_node(g, CU_GRAPH_NODE_TYPE_MEMCPY), c);
}

API CUresult cuGraphNodeSetParams(struct node *n, const CUgraphNodeParams *p)
{
	IN_CONTEXT;
	return n->type == CU_GRAPH_NODE_TYPE_MEMCPY && p->type == n->type ?
		       set_copy(n, &p->memcpy.copyParams) :
		       CUDA_ERROR_INVALID_VALUE;
}

static void allocate_of_graph(const struct graph *e)
{
	u64 sum = graph_used;
	for (int i = 0; i < e->nodes; i++)
		sum += e->node[i]->alloc.bytesize;
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
	void *node;
	const CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = (u64)s,
		.srcPitch = n,
		.srcHeight = 1,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = (u64)d,
		.dstPitch = n,
		.dstHeight = 1,
		.WidthInBytes = n,
		.Height = 1,
		.Depth = 1,
	};
	add_copy(&node, x->graph, &c);
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
	for (int i = 0; i < g->nodes; i++) {
		(*e)->node[i] = malloc(sizeof(struct node));
		*(*e)->node[i] = *g->node[i];
	}
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
	for (int i = 0; i < e->nodes; i++) {
		const struct node *n = e->node[i];
		const CUDA_MEMCPY3D *c = &n->copy;
		if ((n->to_id && n->to_id != registration(c->dstDevice)) ||
		    (n->from_id && n->from_id != registration(c->srcDevice))) {
			sticky = CUDA_ERROR_LAUNCH_FAILED; // shows when the work is waited for
			return CUDA_SUCCESS;
		}
		gpu_copy((void *)c->dstDevice, (void *)c->srcDevice, c->WidthInBytes);
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

// Allocation, copy, host and conditional nodes only. The array of a conditional node's bodies is the
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
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return add_copy(node, g, &p->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_HOST:
		*node = &g->host;
		g->host.type = p->type;
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
