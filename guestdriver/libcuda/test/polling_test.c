/* SPDX-License-Identifier: Apache-2.0 */
/* How long threads poll for answers, against the fake worker. */
#include <pthread.h>
#include <unistd.h>

#include "base/ticks.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/context.h"
#include "fake_worker.h"
#include "transport/channel.h"
#include "transport/polling.h"
#include "transport/slot.h"

/* A thread that has a slot, until its end. */
struct company {
	pthread_t thread;
	pthread_barrier_t met;
};

static void *keep_company(void *told)
{
	struct company *c = told;

	slot_of_thread();
	pthread_barrier_wait(&c->met);
	pthread_barrier_wait(&c->met);
	return NULL;
}

static void company_begin(struct company *c)
{
	CHECK(!pthread_barrier_init(&c->met, NULL, 2));
	CHECK(!pthread_create(&c->thread, NULL, keep_company, c));
	pthread_barrier_wait(&c->met);
}

static void company_end(struct company *c)
{
	pthread_barrier_wait(&c->met);
	CHECK(!pthread_join(c->thread, NULL));
	pthread_barrier_destroy(&c->met);
}

/*
 * How long a thread polls for an answer: as the policy says, but less in a context that blocks, or
 * beside another thread.
 */
static void polling(void)
{
	static const struct {
		uint32_t spin;
		unsigned flags;
		bool alone;
		uint64_t payload, us, driver;
	} cases[] = {
		{ 20000, 0, true, 0, 1000, 19000 },
		{ 20000, 0, false, 0, 200, 19800 },
		{ 20000, CTX_SCHED_BLOCKING_SYNC, true, 0, 200, 0 },
		{ 20000, CTX_SCHED_BLOCKING_SYNC, false, 0, 200, 0 },
		{ 20000, 2, true, 0, 1000, 19000 },
		{ 500, 0, true, 0, 500, 0 },
		{ 500, 0, false, 0, 200, 300 },
		{ 50, 0, true, 0, 50, 0 },
		{ 50, CTX_SCHED_BLOCKING_SYNC, true, 0, 50, 0 },
		{ 50, 0, true, 8000000, 1050, 0 },
		{ 50, CTX_SCHED_BLOCKING_SYNC, true, 80000000, 5050, 0 },
		{ 20000, 0, true, 80000000, 11000, 19000 },
		{ 20000, 0, false, 80000000, 10200, 19800 },
		{ 0, 0, true, 80000000, 0, 0 },
	};
	uint32_t saved = channel.header->spin_guest_us;
	struct company other;
	unsigned flags;

	CHECK_IS(0, cuCtxGetFlags(&flags));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request r;

		channel.header->spin_guest_us = cases[i].spin;
		CHECK_IS(0, cuCtxSetFlags(cases[i].flags));
		request_init(&r, PARACUDA_OP_NOP);
		if (!cases[i].alone)
			company_begin(&other);
		CHECK_IS(cases[i].alone, slot_alone());
		CHECK_IS(
			(int)cases[i].us,
			(int)(polling_ticks(cases[i].payload, r.sleeps, ticks()) / ticks_per_us()));
		CHECK_IS((int)cases[i].driver, (int)(polling_in_driver(r.sleeps) / 1000));
		if (!cases[i].alone)
			company_end(&other);
	}
	CHECK_IS(0, cuCtxSetFlags(flags));
	channel.header->spin_guest_us = saved;
}

/*
 * An answer that takes longer than the library polls for is polled for by the driver, again and
 * again for as long as is left, before the thread sleeps.
 */
static void polled_by_driver(void)
{
	uint32_t saved = channel.header->spin_guest_us;
	unsigned polls = fake.polls, waits = fake.waits;

	channel.header->spin_guest_us = 60000000; /* as good as without end */
	__atomic_store_n(&fake.until_polls, polls + 8, __ATOMIC_RELAXED);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK(fake.polls >= polls + 8);
	CHECK_IS(waits, fake.waits);

	/* 250 polls, or as many as get a processor: beside others it may take more time. */
	for (uint32_t us = 100000; us <= 10000000; us *= 10) {
		polls = fake.polls;
		waits = fake.waits;
		channel.header->spin_guest_us = us;
		__atomic_store_n(&fake.until_waits, waits + 1, __ATOMIC_RELAXED);
		CHECK_IS(0, cuCtxSynchronize());
		CHECK_IS(waits + 1, fake.waits);
		if (fake.polls >= polls + 2)
			break;
	}
	CHECK(fake.polls >= polls + 2);
	channel.header->spin_guest_us = saved;
}

static void *begin_turn(void *waits)
{
	while (__atomic_load_n(&fake.waits, __ATOMIC_RELAXED) == *(unsigned *)waits)
		usleep(100);
	fake_hold(false);
	return NULL;
}

/*
 * A thread whose call waits for the VM's turn sleeps, however long it may poll. It polls again when
 * the turn has begun.
 */
static void held_back(void)
{
	uint32_t saved = channel.header->spin_guest_us;
	unsigned polls = fake.polls, waits = fake.waits;
	pthread_t thread;

	channel.header->spin_guest_us = 60000000; /* as good as without end */
	fake_hold(true);
	__atomic_store_n(&fake.until_waits, waits + 1, __ATOMIC_RELAXED);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK_IS(polls, fake.polls);
	CHECK_IS(waits + 1, fake.waits);

	waits = fake.waits;
	__atomic_store_n(&fake.until_polls, polls + 2, __ATOMIC_RELAXED);
	CHECK_IS(0, pthread_create(&thread, NULL, begin_turn, &waits));
	CHECK_IS(0, cuCtxSynchronize());
	CHECK_IS(0, pthread_join(thread, NULL));
	CHECK(fake.polls >= polls + 2);
	CHECK_IS(waits + 1, fake.waits);
	channel.header->spin_guest_us = saved;
}

int main(void)
{
	CUcontext context;

	fake.devices = 1;
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	polling();
	polled_by_driver();
	held_back();
	return 0;
}
