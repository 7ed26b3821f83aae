/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads at once: more than there are slots, a ring that wraps and fills, host functions,
 * thread ends.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "addresses/memory_map.h"
#include "base/table.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "fake_worker.h"
#include "transport/bulk.h"
#include "transport/slot.h"

#define MANY 300

static CUcontext context;
static pthread_barrier_t barrier;

static void *copier(void *arg)
{
	size_t bytes = 100 + 997 * (size_t)(uintptr_t)arg;
	uint8_t *in = malloc(bytes), *out = malloc(bytes);
	CUdeviceptr a;

	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuMemAlloc_v2(&a, bytes));
	for (int round = 0; round < 60; round++) {
		memset(in, round + (int)(uintptr_t)arg, bytes);
		CHECK_IS(0, cuMemcpyHtoDAsync_v2(a, in, bytes, (CUstream)2));
		for (int i = 0; i < 20; i++)
			CHECK_IS(0, cuMemsetD8Async(a, 1, 1, NULL));
		CHECK_IS(0, cuMemcpyDtoH_v2(out, a, bytes));
		CHECK(out[0] == 1 && !memcmp(in + 1, out + 1, bytes - 1));
	}
	CHECK_IS(0, cuMemFree_v2(a));
	free(in);
	free(out);
	return NULL;
}

static void *one_of_many(void *arg)
{
	(void)arg;
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuCtxSynchronize());
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 5; i++)
		CHECK_IS(0, cuStreamSynchronize((CUstream)2));
	return NULL;
}

static void run(unsigned n, void *(*f)(void *))
{
	pthread_t t[MANY];

	for (unsigned i = 0; i < n; i++)
		CHECK(!pthread_create(&t[i], NULL, f, (void *)(uintptr_t)i));
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* With a slow worker thousands of commands wait in the ring. */
static void full_ring(void)
{
	static uint8_t bytes[4096];
	CUdeviceptr a;

	CHECK_IS(0, cuMemAlloc_v2(&a, sizeof(bytes)));
	__atomic_store_n(&fake.stall_us, 2000, __ATOMIC_RELAXED);
	for (int i = 0; i < 1500; i++)
		CHECK_IS(0, cuMemcpyHtoD_v2(a, bytes, 4096 - (size_t)(i * 8 % 4000)));
	__atomic_store_n(&fake.stall_us, 0, __ATOMIC_RELAXED);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK(fake.nops > 2);
	CHECK_IS(0, cuMemFree_v2(a));
}

/* A command that nobody waits for runs even if none follows. */
static void alone(void)
{
	unsigned before;
	CUdeviceptr a;

	CHECK_IS(0, cuMemAlloc_v2(&a, 64));
	for (int round = 0; round < 200; round++) {
		before = __atomic_load_n(&fake.commands, __ATOMIC_RELAXED);
		CHECK_IS(0, cuMemsetD8_v2(a, 0, 64));
		CHECK_IS(0, cuMemsetD8_v2(a, 0, 64));
		for (int i = 0; __atomic_load_n(&fake.commands, __ATOMIC_RELAXED) < before + 2;
		     i++) {
			CHECK(i < 10000);
			usleep(1000);
		}
		usleep(round % 10 * 100);
	}
	CHECK_IS(0, cuMemFree_v2(a));
}

static int called;

static void function(void *data)
{
	CHECK(data == &called);
	__atomic_fetch_add(&called, 1, __ATOMIC_RELAXED);
}

static void callback(CUstream stream, CUresult status, void *data)
{
	CHECK(stream == (CUstream)1 && status == 0);
	function(data);
}

static void host_functions(void)
{
	for (int i = 0; i < 20; i++) {
		CHECK_IS(0, cuLaunchHostFunc(NULL, function, &called));
		CHECK_IS(0, cuStreamAddCallback((CUstream)1, callback, &called, 0));
	}
	for (int i = 0; __atomic_load_n(&called, __ATOMIC_RELAXED) < 40; i++) {
		CHECK(i < 10000);
		usleep(1000);
	}
}

/* One thread sets an attribute of a function, while the other asks for them for the first time. */
static CUfunction fresh;

static void *describes(void *arg)
{
	int value;

	CHECK_IS(0, cuCtxSetCurrent(context));
	pthread_barrier_wait(&barrier);
	if (arg)
		CHECK_IS(0, cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
					       fresh));
	else
		CHECK_IS(0, cuFuncSetAttribute(
				    fresh, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 9000));
	return NULL;
}

static void attributes(void)
{
	CUmodule m;
	int value;

	pthread_barrier_init(&barrier, NULL, 2);
	for (int round = 0; round < 1000; round++) {
		fake.function_bytes = 49152;
		CHECK_IS(0, cuModuleLoadData(&m, ".version 8.0\n"));
		CHECK_IS(0, cuModuleGetFunction(&fresh, m, "add"));
		run(2, describes);
		CHECK_IS(0,
			 cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					    fresh));
		CHECK_IS(9000, value);
		CHECK_IS(0, cuModuleUnload(m));
	}
	fake.function_bytes = 49152;
}

static bool odd(void *value, void *arg)
{
	(void)arg;
	return (uintptr_t)value & 1;
}

static struct table shared = TABLE_INIT;

static void *table_user(void *arg)
{
	uint64_t base = 1 + ((uint64_t)(uintptr_t)arg << 32);

	for (uint64_t i = 0; i < 2000; i++) {
		CHECK(table_put(&shared, base + i, (void *)(uintptr_t)(base + i)));
		CHECK(table_find(&shared, base + i / 2 * 2) ==
			      (void *)(uintptr_t)(base + i / 2 * 2) ||
		      i / 2 * 2 < i - 1);
		if (i % 3 == 2)
			CHECK(table_take(&shared, base + i - 2) ==
			      (void *)(uintptr_t)(base + i - 2));
	}
	return NULL;
}

/* The map of ranges against an array. */
static void ranges(void)
{
	static bool there[512];
	struct memory m = { .kind = MEMORY_REGISTERED }, got;
	unsigned seed = 1;

	for (int i = 0; i < 20000; i++) {
		unsigned slot = (seed = seed * 1103515245 + 12345) >> 16 & 511;

		m.base = 0x1000 + slot * 0x100;
		m.bytes = 0x80;
		CHECK(memory_find(m.base + 0x7f, &got) == there[slot]);
		CHECK(!memory_find(m.base + 0x80, &got));
		CHECK(memory_overlaps(m.base - 1, 2) == there[slot]);
		if (there[slot])
			CHECK(memory_take(m.base, MEMORY_REGISTERED, &got));
		else
			CHECK(memory_enter(&m));
		there[slot] = !there[slot];
	}
}

static void bulk(void)
{
	uint64_t taken[64];
	size_t limit = bulk_limit();

	CHECK(!bulk_take(limit + 1));
	for (int round = 0; round < 20; round++) {
		unsigned n = 0;

		while (n < 64 && (taken[n] = bulk_take(limit / 8 + 1)))
			n++;
		CHECK(n >= 16);
		for (unsigned i = 0; i < n; i += 2)
			bulk_give(taken[i]);
		for (unsigned i = 1; i < n; i += 2)
			bulk_give(taken[i]);
	}
}

int main(void)
{
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	run(8, copier);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK(fake.thread_exits >= 8);
	pthread_barrier_init(&barrier, NULL, MANY);
	run(MANY, one_of_many);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK(fake.thread_exits >= 8 + SLOTS_OWNED - 1);
	full_ring();
	alone();
	host_functions();
	attributes();
	run(4, table_user);
	table_purge(&shared, odd, NULL, NULL);
	CHECK(!table_find(&shared, 1 + 1998));
	ranges();
	bulk();
	return 0;
}
