// SPDX-License-Identifier: Apache-2.0
// Clocks that a program reads from the processor's counter, preloaded into a User Mode Linux guest:
// its kernel is asked for each reading, which takes some 18 us there, and torch.distributed asks
// several times a collective. In a VM the C library reads the counter itself, as here.
// COUNT_CLOCKS=1 has each process say on its standard error how often it asked.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define NS 1000000000ull
#define CLOCKS 2 // CLOCK_REALTIME and CLOCK_MONOTONIC, which are 0 and 1

static uint64_t start, base[CLOCKS], asked;
static double ns_per_tick;

static uint64_t ask(clockid_t clock)
{
	struct timespec t = { 0 };

	syscall(SYS_clock_gettime, clock, &t);
	return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static void say(void)
{
	if (getenv("COUNT_CLOCKS"))
		fprintf(stderr, "clock: asked %llu times\n", (unsigned long long)asked);
}

__attribute__((constructor)) static void calibrate(void)
{
	uint64_t begin = ask(CLOCK_MONOTONIC), ticks = __rdtsc(), end;

	do
		end = ask(CLOCK_MONOTONIC);
	while (end - begin < NS / 20);
	start = __rdtsc();
	ns_per_tick = (double)(end - begin) / (double)(start - ticks);
	for (int i = 0; i < CLOCKS; i++)
		base[i] = ask(i);
	atexit(say);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock < 0 || clock >= CLOCKS || !start)
		return (int)syscall(SYS_clock_gettime, clock, t);
	__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
	uint64_t now = base[clock] + (uint64_t)((double)(__rdtsc() - start) * ns_per_tick);

	t->tv_sec = (time_t)(now / NS);
	t->tv_nsec = (long)(now % NS);
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
