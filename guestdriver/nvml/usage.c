/* SPDX-License-Identifier: Apache-2.0 */
/* What changes while a GPU is used: its memory, its processes' memory, and how busy it is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "nvml.h"

#define SECOND 1000000000ll

/* Asking starts a process: an answer holds for a second. */
int gpu_now(const struct gpu *g, struct gpu *out)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct gpu now[GPUS_MAX];
	static long long asked;
	static int count;
	struct timespec t;
	int found = -1;

	pthread_mutex_lock(&lock);
	clock_gettime(CLOCK_MONOTONIC, &t);
	if (count <= 0 || t.tv_sec * SECOND + t.tv_nsec - asked > SECOND) {
		count = gpu_query(now, GPUS_MAX, 1);
		clock_gettime(CLOCK_MONOTONIC, &t);
		asked = t.tv_sec * SECOND + t.tv_nsec;
	}
	for (int i = 0; i < count && found < 0; i++) {
		if (memcmp(now[i].uuid, g->uuid, sizeof(g->uuid)))
			continue;
		*out = now[i];
		found = 0;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* The inode of the first namespace of process ids (PROC_PID_INIT_INO of the kernel). */
#define FIRST_PIDS 0xEFFFFFFCu

/*
 * The host knows processes by their ids outside of all containers. A kernel without such namespaces
 * has no such file.
 */
static int in_container(void)
{
	struct stat s;

	return !stat("/proc/self/ns/pid", &s) && s.st_ino != FIRST_PIDS;
}

uint64_t process_memory(const struct gpu *now, uint32_t pid)
{
	const struct paracuda_usage *u = &now->usage;

	if (!now->usage_known || in_container())
		return NOT_AVAILABLE;
	for (unsigned i = 0; i < u->holders && i < PARACUDA_HOLDERS_MAX; i++)
		if (u->holder[i].pid == pid)
			return u->holder[i].bytes;
	return NOT_AVAILABLE;
}

/* How much of the time memory is read or written isn't known: 0. */
EXPORT enum nvml nvmlDeviceGetUtilizationRates(const void *handle, struct utilization *out)
{
	struct gpu now;
	FIND(g, handle, out);
	if (gpu_now(g, &now))
		return NVML_UNKNOWN;
	if (!now.usage_known || !now.usage.busy_known)
		return NVML_NOT_SUPPORTED;
	*out = (struct utilization){ now.usage.busy, 0 };
	return NVML_SUCCESS;
}
