/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the VM that use the GPU: those that have memory of /dev/paracuda mapped, among
 * those whose files the caller may look at (all, if it is root). A child that a program forked has
 * the device open, but not mapped.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "nvml.h"

#define DEVICE "/dev/paracuda"

static bool opened(const char *pid)
{
	char path[64], target[64];
	bool found = false;
	struct dirent *e;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	fds = opendir(path);
	while (fds && !found && (e = readdir(fds))) {
		ssize_t n = readlinkat(dirfd(fds), e->d_name, target, sizeof(target));

		found = n == (ssize_t)strlen(DEVICE) && !memcmp(target, DEVICE, (size_t)n);
	}
	if (fds)
		closedir(fds);
	return found;
}

static bool mapped(const char *pid)
{
	char path[64], *line = NULL;
	bool found = false;
	size_t room = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
	maps = fopen(path, "re");
	while (maps && !found && getline(&line, &room, maps) > 0)
		found = strstr(line, " " DEVICE "\n");
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

/* Fills in the processes, at most room, and returns how many there are. */
static unsigned list(uint32_t *pids, unsigned room)
{
	unsigned count = 0;
	DIR *all = opendir("/proc");
	struct dirent *e;

	while (all && (e = readdir(all))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !opened(e->d_name) ||
		    !mapped(e->d_name))
			continue;
		if (count < room)
			pids[count] = (uint32_t)strtoul(e->d_name, NULL, 10);
		count++;
	}
	if (all)
		closedir(all);
	return count;
}

/* A VM's processes use its one GPU: of several, it isn't known which. */
enum nvml gpu_processes(const void *handle, unsigned *count, void *infos, size_t size)
{
	unsigned room, found;
	struct gpu now;
	uint32_t *pids;
	FIND(g, handle, count);
	room = infos ? *count : 0;
	pids = calloc(room + 1, sizeof(*pids));
	if (!pids)
		return NVML_MEMORY;
	found = gpu_index(g) ? 0 : list(pids, room);
	if (found && room && gpu_now(g, &now))
		now.usage_known = 0;
	for (unsigned i = 0; i < found && i < room; i++) {
		struct process p = { pids[i], process_memory(&now, pids[i]), ~0u, ~0u };

		memcpy((uint8_t *)infos + i * size, &p, size < sizeof(p) ? size : sizeof(p));
	}
	free(pids);
	*count = found;
	return found > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceGetComputeRunningProcesses(const void *handle, unsigned *count,
						      struct process_v1 *infos)
{
	return gpu_processes(handle, count, infos, sizeof(*infos));
}

EXPORT enum nvml nvmlDeviceGetComputeRunningProcesses_v2(const void *handle, unsigned *count,
							 struct process *infos)
{
	return gpu_processes(handle, count, infos, sizeof(*infos));
}

EXPORT enum nvml nvmlDeviceGetComputeRunningProcesses_v3(const void *handle, unsigned *count,
							 struct process *infos)
{
	return gpu_processes(handle, count, infos, sizeof(*infos));
}

/* Processes that draw, or use MPS: there are none. */
#define NONE(name)                                                              \
	EXPORT enum nvml name(const void *handle, unsigned *count, void *infos) \
	{                                                                       \
		FIND(g, handle, count);                                         \
		(void)g;                                                        \
		(void)infos;                                                    \
		*count = 0;                                                     \
		return NVML_SUCCESS;                                            \
	}

NONE(nvmlDeviceGetGraphicsRunningProcesses)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v2)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v3)
NONE(nvmlDeviceGetMPSComputeRunningProcesses)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3)
