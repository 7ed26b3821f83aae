/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of processes, which aren't supported: every process that uses the GPU is running. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/state.h"
#include "base/zz_generated_prototypes.h"

#define DEVICE_NODE "/dev/paracuda"

enum { PROCESS_RUNNING }; /* CUprocessState */

/* Whether an entry of a folder of descriptors is a device of ours. */
static bool is_device(int folder, const char *name)
{
	char path[sizeof(DEVICE_NODE)];
	ssize_t n = readlinkat(folder, name, path, sizeof(path));

	return n >= (ssize_t)strlen(DEVICE_NODE) && !memcmp(path, DEVICE_NODE, strlen(DEVICE_NODE));
}

/* Whether a process has a device of ours open. */
static CUresult uses_device(int pid, bool *uses)
{
	struct dirent *entry;
	char path[32];
	DIR *folder;

	*uses = false;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	if (!folder)
		return errno == ENOENT ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_NOT_PERMITTED;
	while (!*uses && (entry = readdir(folder)))
		*uses = is_device(dirfd(folder), entry->d_name);
	closedir(folder);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
	CUresult result;
	bool uses;

	ENTER();
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	result = uses_device(pid, &uses);
	if (!result && !uses)
		result = CUDA_ERROR_NOT_INITIALIZED;
	if (!result)
		*state = PROCESS_RUNNING;
	return result;
}
