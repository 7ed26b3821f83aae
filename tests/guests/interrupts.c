/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the interrupts of channels: two processes, each on a processor of its own, make calls that
 * are answered, change places, and make as many again; with the argument `alone` it is one.
 * Prints a line for each vector that raised any, and on which processors; then how many there were
 * in all, and how many calls; for each of the two rounds. A device without vectors has a line,
 * which counts as one.
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
#define ROUNDS 2 /* in which they change places */
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

static unsigned processes = PROCESSORS;

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

/* Makes calls, on one processor and then on the other: waits for `go` before and after each lot. */
static void work(unsigned process, int go, int over)
{
	void *context;
	uint64_t memory;
	char byte = 0;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	CHECK(driver);
	CU(cuInit, 0);
	CU(cuDevicePrimaryCtxRetain, P(&context), 0);
	CU(cuCtxSetCurrent, P(context));
	CU(cuMemAlloc_v2, P(&memory), BYTES);
	for (unsigned round = 0; round < ROUNDS; round++) {
		settle_on((process + round) % PROCESSORS);
		usleep(1500000); /* interrupts are moved once a second at most */
		call(20, memory);
		CHECK(write(over, &byte, 1) == 1 && read(go, &byte, 1) == 1);
		call(CALLS, memory);
		CHECK(write(over, &byte, 1) == 1 && read(go, &byte, 1) == 1);
	}
}

static int go[2], over[2];

static void await(void)
{
	char byte;

	for (unsigned i = 0; i < processes; i++)
		CHECK(read(over[0], &byte, 1) == 1);
}

static void let_go(void)
{
	for (unsigned i = 0; i < processes; i++)
		CHECK(write(go[1], "", 1) == 1);
}

static void show(const struct counts *before, const struct counts *after)
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

int main(int argc, char **argv)
{
	struct counts before, after;

	if (argc > 1 && !strcmp(argv[1], "alone"))
		processes = 1;
	CHECK(!pipe(go) && !pipe(over));
	for (unsigned i = 0; i < processes; i++) {
		if (!fork()) {
			work(i, go[0], over[1]);
			exit(0);
		}
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		await();
		before = count();
		let_go();
		await();
		after = count();
		show(&before, &after);
		let_go();
	}
	for (unsigned i = 0; i < processes; i++)
		CHECK(wait(NULL) > 0);
	return 0;
}
