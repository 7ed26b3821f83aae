/* SPDX-License-Identifier: Apache-2.0 */
/* The library's start and end, and what it says about the system. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "nvml.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu gpus[GPUS_MAX];
static int known; /* gpus are filled in: they never change while a process lives */
static unsigned count, users;

static enum nvml look(void)
{
	int n = known ? (int)count : gpu_query(gpus, GPUS_MAX, 0);

	if (n <= 0)
		return NVML_DRIVER_NOT_LOADED;
	count = (unsigned)n;
	known = 1;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlInitWithFlags(unsigned flags)
{
	enum nvml result;

	(void)flags;
	pthread_mutex_lock(&lock);
	result = look();
	if (!result)
		users++;
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT enum nvml nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}
EXPORT enum nvml nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

EXPORT enum nvml nvmlShutdown(void)
{
	enum nvml result = NVML_UNINITIALIZED;

	pthread_mutex_lock(&lock);
	if (users) {
		users--;
		result = NVML_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

unsigned gpu_count(void)
{
	return __atomic_load_n(&users, __ATOMIC_ACQUIRE) ? count : 0;
}

struct gpu *gpu_at(unsigned i)
{
	return i < gpu_count() ? &gpus[i] : NULL;
}

unsigned gpu_index(const struct gpu *g)
{
	return (unsigned)(g - gpus);
}

struct gpu *gpu_of(const void *handle)
{
	for (unsigned i = 0; i < gpu_count(); i++)
		if (handle == &gpus[i])
			return &gpus[i];
	return NULL;
}

enum nvml gpu_error(void)
{
	return gpu_count() ? NVML_INVALID_ARGUMENT : NVML_UNINITIALIZED;
}

static enum nvml text(char *to, unsigned room, const char *from)
{
	if (!to)
		return NVML_INVALID_ARGUMENT;
	if (strlen(from) >= room)
		return NVML_INSUFFICIENT_SIZE;
	strcpy(to, from);
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	return gpu_count() ? text(version, length, DRIVER_VERSION) : NVML_UNINITIALIZED;
}

EXPORT enum nvml nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	return text(version, length, "13." DRIVER_VERSION);
}

EXPORT enum nvml nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!version)
		return NVML_INVALID_ARGUMENT;
	if (!gpu_count())
		return NVML_UNINITIALIZED;
	*version = (int)gpus[0].cuda;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

EXPORT enum nvml nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
	char path[64], line[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return NVML_NOT_FOUND;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	line[strcspn(line, "\n")] = 0;
	return text(name, length, line);
}

EXPORT const char *nvmlErrorString(enum nvml result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "The operation was successful";
	case NVML_UNINITIALIZED:
		return "Uninitialized";
	case NVML_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_NOT_FOUND:
		return "Not Found";
	case NVML_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_TIMEOUT:
		return "Timeout";
	case NVML_FUNCTION_NOT_FOUND:
		return "Function Not Found";
	case NVML_MEMORY:
		return "Insufficient Memory";
	case NVML_VERSION_MISMATCH:
		return "Argument Version Mismatch";
	default:
		return "Unknown Error";
	}
}
