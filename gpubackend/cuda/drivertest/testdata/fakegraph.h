// SPDX-License-Identifier: Apache-2.0

// Captures and graphs of the fake: copies, in the order in which they were captured. A copy whose
// host memory is registered when it is captured works with that registration only; the driver's do.

struct copy {
	void *to;
	const void *from;
	u64 n, to_id, from_id;
};
struct node {
	u64 pool[11], access[2], bytes, address;
};
struct host {
	void (*f)(void *);
	void *data;
	int *running;
};
struct graph {
	struct copy copy[16];
	int n;
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
	return OK;
}

API CUresult cuDeviceGetGraphMemAttribute(int d, int a, u64 *v)
{
	*v = a == 0 ? graph_used : graph_reserved;
	return d || a % 2 ? INVALID : OK;
}

API CUresult cuDeviceGraphMemTrim(int d)
{
	COUNT;
	graph_reserved = graph_used;
	return d ? INVALID : OK;
}

API CUresult cuGraphNodeGetType(struct node *n, int *type)
{
	*type = n->bytes ? 10 : 5;
	return OK;
}

API CUresult cuGraphMemAllocNodeGetParams(struct node *n, struct node *to)
{
	*to = *n;
	return OK;
}

API CUresult cuGraphGetNodes(const struct graph *g, struct node **to, size_t *n)
{
	if (to)
		memcpy(to, g->node, *n * sizeof(*to));
	*n = (size_t)g->nodes;
	return OK;
}

static CUresult add_allocation(void **node, struct graph *g, struct node *p)
{
	struct node *n = malloc(sizeof(*n));
	*n = *p;
	p->address = 0x7000;
	if (g->nodes == 16 || !n->bytes)
		return INVALID;
	*node = g->node[g->nodes++] = n;
	return OK;
}

static void allocate_of_graph(const struct graph *e)
{
	u64 sum = graph_used;
	for (int i = 0; i < e->nodes; i++)
		sum += e->node[i]->bytes;
	if (sum > graph_reserved)
		graph_reserved = sum;
}

// What was allocated at the only address that graphs have is freed.
static CUresult free_of_graph(u64 p)
{
	if (p != 0x7000 || !graph_used)
		return INVALID;
	graph_used = 0;
	return OK;
}

API CUresult cuMemFree_v2(u64 p)
{
	IN_CONTEXT;
	return free_of_graph(p);
}

API CUresult cuMemFreeAsync(u64 p, void *s)
{
	IN_CONTEXT;
	return s == (void *)2 ? free_of_graph(p) : INVALID;
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
	if (mode != 2)
		return INVALID;
	if ((u64)s < 2)
		return 900;
	if (capturing(s))
		return 401;
	stream_of(s)->graph = calloc(1, sizeof(struct graph));
	return OK;
}

API CUresult cuStreamIsCapturing(void *s, int *status)
{
	IN_CONTEXT;
	*status = capturing(s) != NULL;
	return OK;
}

API CUresult cuStreamEndCapture(void *s, struct graph **g)
{
	IN_CONTEXT;
	if (!capturing(s))
		return 401;
	*g = stream_of(s)->graph;
	(*g)->captured = 1; // in all streams that had joined
	return OK;
}

API CUresult cuGraphInstantiateWithFlags(struct graph **e, struct graph *g, u64 flags)
{
	IN_CONTEXT;
	*e = malloc(sizeof(**e));
	**e = *g;
	return flags ? INVALID : OK;
}

API CUresult cuGraphExecDestroy(struct graph *e)
{
	IN_CONTEXT;
	free(e);
	return OK;
}

API CUresult cuGraphDestroy(struct graph *g)
{
	COUNT;
	if (!g->captured)
		free(g);
	return OK;
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
		return 900;
	allocate_of_graph(e);
	run_host(e);
	for (const struct copy *c = e->copy; c < e->copy + e->n; c++) {
		if ((c->to_id && c->to_id != registration((u64)c->to)) ||
		    (c->from_id && c->from_id != registration((u64)c->from))) {
			sticky = 719; // shows when the work is waited for
			return OK;
		}
		memmove(c->to, c->from, c->n);
	}
	return OK;
}

API CUresult cuGraphCreate(struct graph **g, unsigned flags)
{
	COUNT;
	*g = calloc(1, sizeof(**g));
	return flags ? INVALID : OK;
}

API CUresult cuGraphConditionalHandleCreate(u64 *h, const struct graph *g, const void *ctx,
					    unsigned value, unsigned flags)
{
	IN_CONTEXT;
	*h = 0xc000 + value;
	return g && ctx == current && flags < 2 ? OK : INVALID;
}

struct conditional {
	int type, zero[3];
	u64 handle;
	unsigned kind, size;
	struct graph **bodies;
	void *ctx;
};

// Allocation, host and conditional nodes only. The array of bodies is the driver's.
API CUresult cuGraphAddNode_v2(void **node, struct graph *g, void *const *after, const void *edges,
			       size_t n, struct conditional *p)
{
	IN_CONTEXT;
	if (g && p->type == 10)
		return add_allocation(node, g, (struct node *)((char *)p + 16));
	if (g && p->type == 3) {
		*node = &g->host;
		memcpy(&g->host, (char *)p + 16, 16);
		return OK;
	}
	if (!g || after || edges || n || p->type != 13 || p->ctx != current || p->bodies ||
	    p->size > 4)
		return INVALID;
	*node = p->bodies = calloc(p->size, sizeof(*p->bodies));
	for (unsigned i = 0; i < p->size; i++)
		cuGraphCreate(&p->bodies[i], 0);
	return p->handle == 0xc000 + p->kind ? OK : INVALID;
}

// Kernel nodes do nothing here: they only let launches be replayed.
API CUresult cuGraphAddKernelNode_v2(void **node, struct graph *g, void *const *after, size_t n,
				     const void *p)
{
	IN_CONTEXT;
	*node = g;
	return n > 1 || (n && !*after) || !p ? INVALID : OK;
}

API CUresult cuGraphExecKernelNodeSetParams_v2(struct graph *e, const void *node, const void *p)
{
	IN_CONTEXT;
	return !e || !node || !p ? INVALID : OK;
}
