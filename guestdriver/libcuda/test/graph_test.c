/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects of executable graphs: they last until the graph's launches are over, and no longer.
 */
#include <string.h>
#include <unistd.h>

#include "addresses/graph_memory.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "fake_worker.h"
#include "graphs/graph.h"
#include "streams/host_function.h"

static unsigned destroyed;

static void destroy(void *unused)
{
	(void)unused;
	__atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static unsigned gone(void)
{
	return __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST);
}

/* Destructors have threads of their own. */
static void await(unsigned count)
{
	for (unsigned i = 0; i < 5000 && gone() < count; i++)
		usleep(1000);
	CHECK_IS(count, gone());
}

static unsigned sent(unsigned op)
{
	return __atomic_load_n(&fake.ops[op], __ATOMIC_ACQUIRE);
}

/* An executable graph, the only one that refers to an object if it has one. */
static CUgraphExec make(bool with_object)
{
	CUuserObject object;
	CUgraph graph;
	CUgraphExec exec;

	CHECK_IS(0, cuGraphCreate(&graph, 0));
	if (with_object) {
		CHECK_IS(CUDA_ERROR_INVALID_VALUE,
			 cuUserObjectCreate(&object, NULL, destroy, 0, 1));
		CHECK_IS(0, cuUserObjectCreate(&object, NULL, destroy, 1,
					       CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
		CHECK_IS(0, cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	}
	CHECK_IS(0, cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_IS(0, cuGraphDestroy(graph));
	return exec;
}

static void end(CUgraphExec exec)
{
	CHECK_IS(0, cuGraphExecDestroy(exec));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(exec));
}

/* Nothing is under way: the object goes at once, launched or not, and so does the event. */
static void at_once(void)
{
	unsigned before = gone(), made = sent(OP_EventCreate), ended = sent(OP_cuEventDestroy_v2);
	CUgraphExec exec = make(true);

	end(exec);
	await(before + 1);
	CHECK_IS(made, sent(OP_EventCreate));
	exec = make(true);
	CHECK_IS(0, cuGraphLaunch(exec, NULL));
	CHECK_IS(0, cuGraphLaunch(exec, NULL));
	end(exec);
	await(before + 2);
	CHECK_IS(made + 1, sent(OP_EventCreate));
	CHECK_IS(ended + 1, sent(OP_cuEventDestroy_v2));
}

/* A launch is under way, in a stream that may be destroyed meanwhile. */
static void after_launches(bool keep_stream)
{
	unsigned before = gone();
	CUgraphExec exec = make(true);
	CUstream s;

	CHECK_IS(0, cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	fake_busy();
	CHECK_IS(0, cuGraphLaunch(exec, s));
	if (!keep_stream)
		CHECK_IS(0, cuStreamDestroy_v2(s));
	end(exec);
	usleep(20000);
	CHECK_IS(before, gone());
	fake_idle();
	await(before + 1);
	if (keep_stream)
		CHECK_IS(0, cuStreamDestroy_v2(s));
}

/* A graph that can't be destroyed keeps its objects. */
static void refused(void)
{
	unsigned before = gone();
	CUgraphExec exec = make(true);

	__atomic_store_n(&fake.fail_op, OP_cuGraphExecDestroy, __ATOMIC_RELAXED);
	CHECK_IS(CUDA_ERROR_ILLEGAL_STATE, cuGraphExecDestroy(exec));
	usleep(20000);
	CHECK_IS(before, gone());
	end(exec);
	await(before + 1);
}

/*
 * A fill of one row may have any pitch, of several rows only one that is a multiple of an element.
 */
static void pitches(void)
{
	CUDA_MEMSET_NODE_PARAMS p = { .pitch = 3, .elementSize = 2, .width = 3, .height = 1 };
	CUgraphNode node;
	CUgraph graph;

	CHECK_IS(0, cuMemAlloc_v2(&p.dst, 64));
	CHECK_IS(0, cuGraphCreate(&graph, 0));
	CHECK_IS(0, cuGraphAddMemsetNode(&node, graph, NULL, 0, &p, context_current()));
	p.pitch = 9;
	p.height = 2;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuGraphAddMemsetNode(&node, graph, NULL, 0, &p, context_current()));
	p.pitch = 8;
	CHECK_IS(0, cuGraphAddMemsetNode(&node, graph, NULL, 0, &p, context_current()));
	CHECK_IS(0, cuGraphDestroy(graph));
	CHECK_IS(0, cuMemFree_v2(p.dst));
}

/* That a kernel node names no function is said before that there is nowhere to put the node. */
static void no_function(void)
{
	CUDA_KERNEL_NODE_PARAMS p = { .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1 };
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	CHECK_IS(0, cuGraphCreate(&graph, 0));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuGraphAddKernelNode_v2(NULL, graph, NULL, 0, &p));
	CHECK_IS(0, cuGraphDestroy(graph));
	exec = make(false);
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE,
		 cuGraphExecKernelNodeSetParams_v2(exec, (CUgraphNode)8, &p));
	__atomic_store_n(&fake.fail_op, OP_cuGraphNodeGetEnabled, __ATOMIC_RELAXED);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, /* the node is none of the executable graph's */
		 cuGraphExecKernelNodeSetParams_v2(exec, (CUgraphNode)8, &p));
	end(exec);
}

static void without_objects(void)
{
	unsigned made = sent(OP_EventCreate), records = sent(OP_cuEventRecordWithFlags);
	CUgraphExec exec = make(false);

	CHECK_IS(0, cuGraphLaunch(exec, NULL));
	CHECK_IS(0, cuCtxSynchronize());
	CHECK_IS(made, sent(OP_EventCreate));
	CHECK_IS(records, sent(OP_cuEventRecordWithFlags));
	end(exec);
}

static unsigned replies(void)
{
	return __atomic_load_n(&fake.replies, __ATOMIC_ACQUIRE);
}

/* A launch that may be refused tells at once; others are delayed. */
static void memory_of_graphs(void)
{
	CUgraphExec exec, other = make(false);
	CUgraphNode node;
	CUgraph graph, outer;
	unsigned before;

	CHECK_IS(0, cuGraphCreate(&graph, 0));
	CHECK_IS(0, cuGraphAddMemFreeNode(&node, graph, NULL, 0, 0x7000));
	CHECK_IS(0, cuGraphCreate(&outer, 0));
	CHECK_IS(0, cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph));
	for (unsigned i = 0; i < 2; i++) {
		CHECK_IS(0, cuGraphInstantiateWithFlags(&exec, i ? outer : graph, 0));
		__atomic_store_n(&fake.fail_op, OP_cuGraphLaunch, __ATOMIC_RELAXED);
		CHECK_IS(CUDA_ERROR_ILLEGAL_STATE, cuGraphLaunch(exec, NULL));
		CHECK_IS(0, cuGraphLaunch(exec, NULL));
		end(exec);
	}
	before = replies();
	for (unsigned i = 0; i < 10; i++)
		CHECK_IS(0, cuGraphLaunch(other, NULL));
	CHECK_IS(before, replies());
	CHECK_IS(0, cuCtxSynchronize());
	end(other);
	CHECK_IS(0, cuGraphDestroy(graph));
	CHECK_IS(0, cuGraphDestroy(outer));
	CHECK_IS(0, graph_has_memory((uintptr_t)graph));
}

static void nothing(void *unused)
{
	(void)unused;
}

static void other(void *unused)
{
	(void)unused;
}

/* A function that is called with the same as before has the number that it had. */
static void host_functions(void)
{
	enum { PAIRS = 5000 };
	static char data[PAIRS];
	static uint64_t number[2][PAIRS];

	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < PAIRS; i++)
			CHECK_IS(0, host_function_keep(i % 2 ? nothing : other, &data[i / 2],
						       &number[round][i]));
	CHECK_IS(0, memcmp(number[0], number[1], sizeof(number[0])));
	for (unsigned i = 0; i < PAIRS; i++) {
		CUhostFn fn = NULL;
		void *with = NULL;

		CHECK_IS(1, host_function_find(number[0][i], &fn, &with));
		CHECK_IS(1, fn == (i % 2 ? nothing : other) && with == &data[i / 2]);
		CHECK_IS(0, i && number[0][i] == number[0][i - 1]);
	}
	CHECK_IS(0, host_function_find(number[0][PAIRS - 1] + 1, &(CUhostFn){ NULL },
				       &(void *){ NULL }));
}

int main(void)
{
	CUcontext context;

	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	at_once();
	after_launches(true);
	after_launches(false);
	refused();
	without_objects();
	pitches();
	no_function();
	memory_of_graphs();
	host_functions();
	return 0;
}
