/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's side of the race for wake-ups, against a worker in another process: rounds of
 * commands at random distances, while both sides sleep at random moments. A wake-up that is lost
 * stops a thread for ever, which whoever started this sees in `rounds`
 * (gpubackend/worker/wakeups_test.go).
 *
 * Usage: wakeups OFFSET CONTEXT FUNCTION ROUNDS, with the file of guest memory as descriptor 3 (the
 * arena at OFFSET), the worker's kick as 4 and the file with struct control as 5.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/pause.h"
#include "check.h"
#include "context/zz_generated_commands.h"
#include "transport/channel.h"
#include "transport/transport.h"

#define ARENA_BYTES ((size_t)PARACUDA_BULK + 65536)
#define THREADS 3

/* Shared with the one that watches; what a thread does is for the dump. */
struct control {
	uint32_t wakes; /* counts the interrupts; a futex */
	uint32_t rounds[THREADS];
	uint32_t doing[THREADS];
};

enum doing { DOING_NOTHING, DOING_CALL, DOING_POST, DOING_UNTIL_TAKEN, DOING_PAUSE };

static struct control *control;
static off_t arena_offset;
static uint64_t context, function;

static int open_arena(struct paracuda_ioctl_open *args, void **arena)
{
	args->arena_bytes = ARENA_BYTES;
	*arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, 3, arena_offset);
	return *arena == MAP_FAILED ? errno : 0;
}

static int kick(void)
{
	return eventfd_write(4, 1) ? errno : 0;
}

/* As the driver does it: sleeps until the word changes, and looks at it after each interrupt. */
static int wait_word(struct paracuda_ioctl_wait *wait)
{
	const uint32_t *word = (const uint32_t *)(channel.arena + wait->offset);

	for (;;) {
		uint32_t wakes = __atomic_load_n(&control->wakes, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != wait->value)
			return 0;
		syscall(SYS_futex, &control->wakes, FUTEX_WAIT, wakes, NULL, NULL, 0);
	}
}

/* Others may want the processor at any time. */
static int poll_word(struct paracuda_ioctl_wait *wait)
{
	const uint32_t *word = (const uint32_t *)(channel.arena + wait->offset);

	for (uint32_t i = wait->value * 2654435761u >> 22; i; i--) {
		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != wait->value)
			return 0;
		cpu_pause();
	}
	return EAGAIN;
}

static int no_map(struct paracuda_ioctl_map *map)
{
	(void)map;
	return ENOMEM;
}

static int no_host_memory(void *at, uint64_t bytes)
{
	(void)at;
	(void)bytes;
	return ENOMEM;
}

static int no_export(struct paracuda_ioctl_export *args)
{
	(void)args;
	return ENOTTY;
}

static int no_import(struct paracuda_ioctl_import *args)
{
	(void)args;
	return ENOTTY;
}

static const struct transport racing = {
	.open = open_arena,
	.kick = kick,
	.wait = wait_word,
	.poll = poll_word,
	.map = no_map,
	.host_memory = no_host_memory,
	.export_object = no_export,
	.import_object = no_import,
};

struct racer {
	pthread_t thread;
	unsigned index;
	unsigned rounds;
	bool alone; /* nobody else's commands could wake the worker */
	uint64_t random;
};

static unsigned below(struct racer *r, unsigned n)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return (unsigned)((r->random >> 32) * n >> 32);
}

static void doing(struct racer *r, enum doing what)
{
	__atomic_store_n(&control->doing[r->index], what, __ATOMIC_RELAXED);
}

static void post(struct racer *r)
{
	struct request q;

	doing(r, DOING_POST);
	request_cuLaunchKernel(&q, &(struct args_cuLaunchKernel){
					   .function = function,
					   .grid_x = 1,
					   .grid_y = 1,
					   .grid_z = 1,
					   .block_x = 1,
					   .block_y = 1,
					   .block_z = 1,
				   });
	q.context = context;
	CHECK_IS(0, channel_post(&q));
}

static void call(struct racer *r)
{
	struct request q;

	doing(r, DOING_CALL);
	request_cuCtxSynchronize(&q);
	q.context = context;
	CHECK_IS(0, channel_call(&q, NULL, 0));
}

/* What nobody waits for is taken even if nothing follows. */
static void until_taken(struct racer *r)
{
	uint32_t end = channel.header->appended;

	doing(r, DOING_UNTIL_TAKEN);
	for (unsigned turns = 0;
	     (int32_t)(__atomic_load_n(&channel.header->consumed, __ATOMIC_ACQUIRE) - end) < 0;
	     turns++) {
		if (turns % 64 == 63)
			sched_yield();
		else
			cpu_pause();
	}
}

/* Times at which the other side is just falling asleep, or has been asleep for long. */
static void pause_randomly(struct racer *r)
{
	static const unsigned most[] = { 1, 10, 10, 50, 50, 50, 200, 200, 1000, 5000 };
	unsigned turns = below(r, most[below(r, 10)]);

	doing(r, DOING_PAUSE);
	if (below(r, 200) == 0)
		usleep(below(r, 100));
	while (turns--)
		cpu_pause();
}

/* What the driver would do on a change of the configuration. */
static void change_policy(struct racer *r)
{
	static const uint32_t spin[] = { 0, 0, 0, 1, 5, 1000 },
			      commands[] = { 1, 32, 32, 32, 32, 32, 32, 32 };

	__atomic_store_n(&channel.header->spin_guest_us, spin[below(r, 6)], __ATOMIC_RELAXED);
	__atomic_store_n(&channel.header->batch_commands, commands[below(r, 8)], __ATOMIC_RELAXED);
}

static void *race(void *arg)
{
	struct racer *r = arg;

	for (unsigned i = 0; i < r->rounds; i++) {
		unsigned posts = below(r, 4) ? below(r, 3) : below(r, 10);

		if (i % 256 == 0)
			change_policy(r);
		pause_randomly(r);
		for (unsigned n = 0; n < posts; n++)
			post(r);
		if (posts && r->alone && below(r, 2))
			until_taken(r);
		else
			call(r);
		__atomic_store_n(&control->rounds[r->index], control->rounds[r->index] + 1,
				 __ATOMIC_RELAXED);
	}
	doing(r, DOING_NOTHING);
	return NULL;
}

static void run(unsigned threads, unsigned rounds)
{
	struct racer racer[THREADS];

	for (unsigned i = 0; i < threads; i++) {
		racer[i] = (struct racer){ .index = i,
					   .rounds = rounds / threads,
					   .alone = threads == 1,
					   .random = 0x9e3779b97f4a7c15 * (i + 1) ^
						     (uint64_t)time(NULL) << 20 };
		CHECK(!pthread_create(&racer[i].thread, NULL, race, &racer[i]));
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(racer[i].thread, NULL);
}

int main(int argc, char **argv)
{
	unsigned rounds;

	CHECK_IS(5, argc);
	arena_offset = (off_t)strtoull(argv[1], NULL, 0);
	context = strtoull(argv[2], NULL, 0);
	function = strtoull(argv[3], NULL, 0);
	rounds = (unsigned)strtoul(argv[4], NULL, 0);
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, 5, 0);
	CHECK(control != MAP_FAILED);
	transport = &racing;
	CHECK_IS(0, channel_open(0));
	/* Alone a thread has nobody who makes good what it lost; several contend for the ring. */
	run(1, rounds / 4 * 3);
	run(THREADS, rounds / 4 + rounds % 4);
	return 0;
}
