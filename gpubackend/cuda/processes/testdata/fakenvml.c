/* SPDX-License-Identifier: Apache-2.0 */
/* An NVML with two GPUs and a few processes. */
#include <string.h>

struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu, compute;
};

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device)
{
	static char devices[2];

	if (i > 1)
		return 2;
	*device = &devices[i];
	devices[i] = (char)i;
	return 0;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned int room)
{
	if (room < 41)
		return 7;
	strcpy(text, *(char *)device ? "GPU-ffffffff-0000-0000-0000-000000000001" :
				       "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *n, struct process *list)
{
	if (*n < 3)
		return 7;
	if (*(char *)device) {
		*n = 0;
		return 0;
	}
	list[0] = (struct process){ 10, 526ull << 20, 0, 0 };
	list[1] = (struct process){ 11, ~0ull, 0, 0 };
	list[2] = (struct process){ 12, 5ull << 30, 0, 0 };
	*n = 3;
	return 0;
}
