/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the interrupts of channels: two processes, each on a processor of its own, make calls that
 * are answered, change places, and make as many again; with the argument `alone` it is one. With
 * `turns` they stay where they are, and make calls one after the other: the first, the second, and
 * the first again.
 * Prints a line for each vector that raised any, and on which processors; then how many there were
 * in all, and how many calls; for each of the rounds. A device without vectors has a line, which
 * counts as one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition); \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

#define CALLS 300
#define BYTES (4 << 20) /* filled before each answer */
#define PROCESSORS 2
#define ROUNDS 2 /* of a process */
#define VECTORS 128

typedef int any(uint64_t, ...);

static void *driver;

#define CU(name, ...) CHECK(((any *)dlsym(driver, #name))((uint64_t)__VA_ARGS__) == 0)
#define P(pointer) ((uint64_t)(uintptr_t)(pointer))

/* What channels' vectors have raised on the first processors. */
struct counts {
	unsigned vectors;
	unsigned long raised[VECTORS][PROCESSORS];
};

/* Whether a line of the kernel's is about interrupts of channels: names are at its end. */
static int of_channels(const char *line)
{
	char path[256] = "", own[32];
	const char *name;

	if (strstr(line, "-channel"))
		return 1;
	CHECK(readlink("/sys/class/misc/paracuda/device", path, sizeof(path) - 1) > 0);
	name = strrchr(path, '/');
	snprintf(own, sizeof(own), "%.20s\n", name ? name + 1 : path);
	name = strstr(line, own);
	return name && name > line && name[-1] == ' ';
}

static struct counts count(void)
{
	FILE *f = fopen("/proc/interrupts", "re");
	struct counts c = { 0 };
	char line[4096];

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		char *at = strchr(line, ':');

		if (!at || !of_channels(line))
			continue;
		CHECK(c.vectors < VECTORS);
		at++;
		for (unsigned i = 0; i < PROCESSORS; i++)
			c.raised[c.vectors][i] = strtoul(at, &at, 10);
		c.vectors++;
	}
	fclose(f);
	return c;
}

static void settle_on(unsigned processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set));
}

/*
 * Each call has work behind it, so that its answer can't be there before the caller sleeps: however
 * the host's threads are scheduled.
 */
static void call(unsigned times, uint64_t memory)
{
	for (unsigned i = 0; i < times; i++) {
		CU(cuMemsetD8_v2, memory, i, BYTES);
		CU(cuStreamSynchronize, 0);
	}
}

static int go[PROCESSORS][2], over[2];

/* Says that something is over, and waits until it may go on. */
static void hold(unsigned process)
{
	char byte = 0;

	CHECK(write(over[1], &byte, 1) == 1 && read(go[process][0], &byte, 1) == 1);
}

/* Makes calls in so many rounds, with a hold before and after each lot. */
static void work(unsigned process, unsigned rounds, int change_places)
{
	void *context;
	uint64_t memory;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	CHECK(driver);
	CU(cuInit, 0);
	CU(cuDevicePrimaryCtxRetain, P(&context), 0);
	CU(cuCtxSetCurrent, P(context));
	CU(cuMemAlloc_v2, P(&memory), BYTES);
	for (unsigned round = 0; round < rounds; round++) {
		settle_on((process + (change_places ? round : 0)) % PROCESSORS);
		usleep(1500000); /* interrupts are moved once a second at most */
		call(20, memory);
		hold(process);
		call(CALLS, memory);
		hold(process);
	}
}

static void await(unsigned processes)
{
	char byte;

	for (unsigned i = 0; i < processes; i++)
		CHECK(read(over[0], &byte, 1) == 1);
}

static void let_go(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		CHECK(write(go[i][1], "", 1) == 1);
}

static void show(const struct counts *before, const struct counts *after, unsigned processes)
{
	unsigned long all = 0;

	for (unsigned v = 0; v < after->vectors; v++) {
		const unsigned long *old = before->raised[v], *new = after->raised[v];
		unsigned long first = new[0] - old[0], second = new[1] - old[1];

		all += first + second;
		if (first + second)
			printf("vector: %lu, %lu\n", first, second);
	}
	printf("%u vectors raised %lu in %d calls\n", after->vectors, all, CALLS * processes);
}

static void start(unsigned process, unsigned rounds, int change_places)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		work(process, rounds, change_places);
		exit(0);
	}
}

/* Counts during a round of some processes, which then wait. */
static void measure(unsigned from, unsigned to)
{
	struct counts before, after;

	await(to - from);
	before = count();
	let_go(from, to);
	await(to - from);
	after = count();
	show(&before, &after, to - from);
}

static void together(unsigned processes)
{
	for (unsigned i = 0; i < processes; i++)
		start(i, ROUNDS, 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		measure(0, processes);
		let_go(0, processes);
	}
	for (unsigned i = 0; i < processes; i++)
		CHECK(wait(NULL) > 0);
}

static void by_turns(void)
{
	start(0, 2, 0);
	measure(0, 1);
	start(1, 1, 0);
	measure(1, 2);
	let_go(0, 1);
	measure(0, 1);
	let_go(0, 2);
	CHECK(wait(NULL) > 0 && wait(NULL) > 0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	CHECK(!setvbuf(stdout, NULL, _IOLBF, 0)); /* nothing is printed again by a child */
	CHECK(!pipe(go[0]) && !pipe(go[1]) && !pipe(over));
	if (!strcmp(how, "turns"))
		by_turns();
	else
		together(strcmp(how, "alone") ? PROCESSORS : 1);
	return 0;
}
