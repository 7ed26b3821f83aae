/* SPDX-License-Identifier: Apache-2.0 */
/* Events that are made ahead: each is new, of the right kind, and of the context that lives. */
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "fake_worker.h"

#define FAILS CUDA_ERROR_ILLEGAL_STATE
#define MANY 40

static CUevent last;

/* Makes an event, which must be another one than the last. */
static CUevent make(unsigned flags)
{
	CUevent e;

	CHECK_IS(0, cuEventCreate(&e, flags));
	CHECK(e != last);
	CHECK_IS(flags, handle_find(HANDLE_EVENT, e)->flags);
	CHECK(handle_find(HANDLE_EVENT, e)->context == context_current());
	return last = e;
}

static void fail(unsigned op)
{
	__atomic_store_n(&fake.fail_op, op, __ATOMIC_RELAXED);
}

static bool has_failed(void)
{
	return !__atomic_load_n(&fake.fail_op, __ATOMIC_RELAXED);
}

/* With one made ahead, only the question for the next one is sent; its failure is nobody's. */
static void ahead(void)
{
	CUevent e;

	make(0);
	fail(OP_EventCreate);
	make(0);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK(has_failed());
	make(0); /* there was none: it waits */
	CHECK_IS(0, cuCtxSynchronize()); /* the next one is made */
	fail(OP_EventCreate);
	CHECK_IS(FAILS, cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	CHECK(has_failed());
}

/* An error that is due is returned, and the event is still there afterwards. */
static void errors(CUfunction f)
{
	void *none[4] = { &last, &last, &last, &last };
	CUevent e;
	int driver;

	make(0);
	fail(OP_cuLaunchKernel);
	CHECK_IS(0, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, none, NULL));
	while (!has_failed())
		CHECK_IS(0, cuDriverGetVersion(&driver));
	while (!__atomic_load_n(&channel.header->async_error, __ATOMIC_ACQUIRE))
		CHECK_IS(0, cuDriverGetVersion(&driver));
	CHECK_IS(FAILS, cuEventCreate(&e, 0));
	fail(OP_EventCreate);
	make(0);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK(has_failed());
}

/* Other kinds, and other contexts, are never given the one that was made ahead. */
static void others(void)
{
	CUcontext context;

	for (int i = 0; i < MANY; i++) {
		make(CU_EVENT_DISABLE_TIMING);
		make(i % 3 ? 0 : CU_EVENT_BLOCKING_SYNC);
		make(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
	}
	for (int i = 0; i < MANY; i++) {
		CHECK_IS(0, cuCtxCreate_v2(&context, 0, 0));
		for (int j = 0; j < i; j++)
			make(0);
		CHECK_IS(0, cuCtxDestroy_v2(context));
	}
	for (int i = 0; i < MANY; i++)
		make(0);
	CHECK_IS(0, cuCtxSynchronize());
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	CUfunction f;

	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuModuleLoadData(&module, ".version 8.0\n"));
	CHECK_IS(0, cuModuleGetFunction(&f, module, "add"));
	for (int i = 0; i < MANY; i++)
		make(0);
	ahead();
	errors(f);
	others();
	return 0;
}
