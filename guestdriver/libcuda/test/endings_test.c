/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ends something while the error of an earlier call is pending: it is sent all the same, and
 * the error is reported.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "fake_worker.h"
#include "transport/channel.h"

/* The thread sanitizer keeps the addresses of reservations for itself. */
#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREADS 1
#else
#define SANITIZED_THREADS 0
#endif

#define PENDING 77
#define PAGE ((size_t)2 << 20)

static CUcontext context;
static CUdeviceptr scratch;

/* A delayed call fails, and nothing has reported it yet. */
static void pend(void)
{
	__atomic_store_n(&fake.post_error, PENDING, __ATOMIC_RELAXED);
	CHECK_IS(0, cuMemsetD8Async(scratch, 0, 1, NULL));
	while (!__atomic_load_n(&channel.header->async_error, __ATOMIC_ACQUIRE))
		usleep(100);
}

static unsigned sent(unsigned op)
{
	return __atomic_load_n(&fake.ops[op], __ATOMIC_ACQUIRE);
}

static uint64_t memory(void)
{
	CUdeviceptr p;

	CHECK_IS(0, cuMemAlloc_v2(&p, 64));
	return p;
}

static uint64_t stream(void)
{
	CUstream s;

	CHECK_IS(0, cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return number_of(s);
}

static uint64_t event(void)
{
	CUevent e;

	CHECK_IS(0, cuEventCreate(&e, 0));
	return number_of(e);
}

static uint64_t module(void)
{
	CUmodule m;

	CHECK_IS(0, cuModuleLoadData(&m, ".version 8.0\n"));
	return number_of(m);
}

static uint64_t pool(void)
{
	CUmemPoolProps props = { .allocType = 1, .location = { 1, 0 } };
	CUmemoryPool p;

	CHECK_IS(0, cuMemPoolCreate(&p, &props));
	return number_of(p);
}

static uint64_t graph(void)
{
	CUgraph g;

	CHECK_IS(0, cuGraphCreate(&g, 0));
	return number_of(g);
}

static uint64_t exec(void)
{
	CUgraphExec e;

	CHECK_IS(0, cuGraphInstantiateWithFlags(&e, (CUgraph)(uintptr_t)graph(), 0));
	return number_of(e);
}

static uint64_t reference(void)
{
	CUtexref r;

	CHECK_IS(0, cuTexRefCreate(&r));
	return number_of(r);
}

static uint64_t link_state(void)
{
	CUlinkState l;

	CHECK_IS(0, cuLinkCreate_v2(0, NULL, NULL, &l));
	return number_of(l);
}

static uint64_t array(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { 0 };
	CUarray a;

	CHECK_IS(0, cuArrayCreate_v2(&a, &d));
	return number_of(a);
}

static uint64_t created(void)
{
	CUcontext c;

	CHECK_IS(0, cuCtxCreate_v2(&c, 0, 0));
	CHECK_IS(0, cuCtxPopCurrent_v2(&c));
	return number_of(c);
}

static CUmemGenericAllocationHandle shared;

static uint64_t mapping(void)
{
	CUmemAllocationProp prop = { .type = 1, .location = { 1, 0 } };
	CUdeviceptr at;

	CHECK_IS(0, cuMemAddressReserve(&at, PAGE, 0, 0, 0));
	CHECK_IS(0, cuMemCreate(&shared, PAGE, &prop, 0));
	CHECK_IS(0, cuMemMap(at, PAGE, 0, shared, 0));
	return at;
}

#define END(name, type, call)                 \
	static CUresult name(uint64_t number) \
	{                                     \
		type h = (type)number;        \
		return call;                  \
	}

END(free_now, CUdeviceptr, cuMemFree_v2(h))
END(free_later, CUdeviceptr, cuMemFreeAsync(h, NULL))
END(end_stream, CUstream, cuStreamDestroy_v2(h))
END(end_event, CUevent, cuEventDestroy_v2(h))
END(end_module, CUmodule, cuModuleUnload(h))
END(end_pool, CUmemoryPool, cuMemPoolDestroy(h))
END(end_graph, CUgraph, cuGraphDestroy(h))
END(end_exec, CUgraphExec, cuGraphExecDestroy(h))
END(end_reference, CUtexref, cuTexRefDestroy(h))
END(end_link, CUlinkState, cuLinkDestroy(h))
END(end_array, CUarray, cuArrayDestroy(h))
END(end_context, CUcontext, cuCtxDestroy_v2(h))

static void objects(void)
{
	static const struct {
		uint64_t (*make)(void);
		CUresult (*end)(uint64_t number);
		unsigned op;
	} cases[] = {
		{ memory, free_now, OP_cuMemFree_v2 },
		{ memory, free_later, OP_cuMemFreeAsync },
		{ stream, end_stream, OP_cuStreamDestroy_v2 },
		{ event, end_event, OP_cuEventDestroy_v2 },
		{ module, end_module, OP_cuModuleUnload },
		{ pool, end_pool, OP_cuMemPoolDestroy },
		{ graph, end_graph, OP_cuGraphDestroy },
		{ exec, end_exec, OP_cuGraphExecDestroy },
		{ reference, end_reference, OP_cuTexRefDestroy },
		{ link_state, end_link, OP_cuLinkDestroy },
		{ array, end_array, OP_cuArrayDestroy },
		{ created, end_context, OP_cuCtxDestroy_v2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t number = cases[i].make();
		unsigned before = sent(cases[i].op);

		pend();
		CHECK_IS(PENDING, cases[i].end(number));
		CHECK_IS(0, cuCtxSynchronize());
		CHECK_IS(before + 1, sent(cases[i].op));
	}
}

/* The memory of a mapping goes with it, too: neither is there for the guest any more. */
static void unmapped_memory(void)
{
	CUdeviceptr at = mapping();
	unsigned before = sent(OP_cuMemRelease), unmapped = sent(OP_cuMemUnmap);

	CHECK_IS(0, cuMemRelease(shared));
	pend();
	CHECK_IS(PENDING, cuMemUnmap(at, PAGE));
	CHECK_IS(unmapped + 1, sent(OP_cuMemUnmap));
	CHECK_IS(before + 1, sent(OP_cuMemRelease));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, PAGE));
}

static void *short_lived(void *arg)
{
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuCtxSynchronize());
	pend();
	return arg;
}

/* The end of a thread is no call that could report an error. */
static void thread_end(void)
{
	pthread_t t;
	unsigned before = fake.thread_exits;

	CHECK(!pthread_create(&t, NULL, short_lived, NULL));
	pthread_join(t, NULL);
	CHECK_IS(PENDING, cuCtxSynchronize());
	CHECK_IS(before + 1, fake.thread_exits);
}

/* What waits does so before it reports. */
static void waits(void)
{
	CUevent e = (CUevent)(uintptr_t)event();
	unsigned streams = fake.syncs, events = sent(OP_cuEventSynchronize), contexts;

	pend();
	CHECK_IS(PENDING, cuStreamSynchronize(NULL));
	CHECK_IS(streams + 1, fake.syncs);
	pend();
	CHECK_IS(PENDING, cuEventSynchronize(e));
	CHECK_IS(events + 1, sent(OP_cuEventSynchronize));
	contexts = sent(OP_cuCtxSynchronize);
	pend();
	CHECK_IS(PENDING, cuCtxSynchronize());
	CHECK_IS(contexts + 1, sent(OP_cuCtxSynchronize));
	CHECK_IS(0, cuEventDestroy_v2(e));
}

/* A capture ends with its graph, and the error is the next call's. */
static void capture(void)
{
	CUstream s = (CUstream)(uintptr_t)stream();
	unsigned before = sent(OP_cuStreamEndCapture);
	CUgraph g;

	CHECK_IS(0, cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	__atomic_store_n(&channel.header->async_error, PENDING, __ATOMIC_RELEASE);
	CHECK_IS(0, cuStreamEndCapture(s, &g));
	CHECK_IS(before + 1, sent(OP_cuStreamEndCapture));
	CHECK_IS(PENDING, cuStreamDestroy_v2(s));
}

static void primary(void)
{
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	pend();
	CHECK_IS(PENDING, cuDevicePrimaryCtxReset_v2(0));
	CHECK_IS(1, sent(OP_cuDevicePrimaryCtxReset_v2));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuMemAlloc_v2(&scratch, 64));
	pend();
	CHECK_IS(PENDING, cuDevicePrimaryCtxRelease_v2(0));
	CHECK_IS(1, sent(OP_cuDevicePrimaryCtxRelease_v2));
}

int main(void)
{
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuMemAlloc_v2(&scratch, 64));
	objects();
	if (!SANITIZED_THREADS)
		unmapped_memory();
	thread_end();
	waits();
	capture();
	primary();
	return 0;
}
