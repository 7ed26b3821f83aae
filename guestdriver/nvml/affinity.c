/* SPDX-License-Identifier: Apache-2.0 */
/* Which processors and which memory are near a GPU: a VM's are all as near. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "nvml.h"

#define BITS (sizeof(unsigned long) * CHAR_BIT)

static void mark(unsigned long *set, unsigned words, unsigned long first, unsigned long last)
{
	for (unsigned long i = first; i <= last && i < words * BITS; i++)
		set[i / BITS] |= 1ul << i % BITS;
}

/*
 * Fills in the numbers in a list of the kernel, such as "0-3,8", or the first `otherwise` numbers
 * if there is no list.
 */
static enum nvml fill(const char *list, unsigned otherwise, unsigned words, unsigned long *set)
{
	unsigned long first, last;
	FILE *f = fopen(list, "re");

	memset(set, 0, words * sizeof(*set));
	if (!f) {
		mark(set, words, 0, otherwise - 1);
		return NVML_SUCCESS;
	}
	while (fscanf(f, "%lu", &first) == 1) {
		if (fscanf(f, "-%lu", &last) != 1)
			last = first;
		mark(set, words, first, last);
		if (fgetc(f) != ',')
			break;
	}
	fclose(f);
	return NVML_SUCCESS;
}

#define PROCESSORS "/sys/devices/system/cpu/online"
#define NODES "/sys/devices/system/node/online"

EXPORT enum nvml nvmlDeviceGetCpuAffinity(const void *handle, unsigned words, unsigned long *set)
{
	FIND(g, handle, set && words);
	(void)g;
	return fill(PROCESSORS, (unsigned)get_nprocs(), words, set);
}

EXPORT enum nvml nvmlDeviceGetCpuAffinityWithinScope(const void *handle, unsigned words,
						     unsigned long *set, unsigned scope)
{
	if (scope > 1)
		return gpu_of(handle) ? NVML_INVALID_ARGUMENT : gpu_error();
	return nvmlDeviceGetCpuAffinity(handle, words, set);
}

EXPORT enum nvml nvmlDeviceGetMemoryAffinity(const void *handle, unsigned words, unsigned long *set,
					     unsigned scope)
{
	FIND(g, handle, set && words && scope <= 1);
	(void)g;
	return fill(NODES, 1, words, set);
}
