// SPDX-License-Identifier: Apache-2.0

// A driver library for tests: device memory is files in memory mapped in the window, every stream
// is idle at once unless a test says otherwise, and the kernels that tests launch are known by
// name.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
#define API __attribute__((visibility("default")))

typedef int32_t CUresult;
typedef u64 CUdeviceptr;
typedef void (*CUhostFn)(void *data);
typedef void *CUcontext, *CUmodule, *CUfunction, *CUlibrary, *CUkernel;
typedef void *CUstream, *CUevent, *CUarray, *CUmipmappedArray, *CUgraphNode;
typedef struct graph *CUgraph;
#include "zz_generated_cuda_layout.h"

// MARK is the driver's own, in what guests can't read.
enum { MARK = 0x5ec4e7 };

static struct {
	const char *name;
	u64 n;
} counters[128];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count(const char *name)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 128; i++) {
		if (!counters[i].name)
			counters[i].name = name;
		if (!strcmp(counters[i].name, name)) {
			counters[i].n++;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}
#define COUNT count(__func__)

static int initialised;
static int not_ready; // queries that answer CUDA_ERROR_NOT_READY
static int sticky; // what every call in a context returns
static int fail_create; // allocations that fail
static u64 last_option[16];
static u64 last_options;
static __thread void *current, *below;

static char contexts[16]; // the primary ones
static int lost[16]; // what every call returns in the context of a GPU that is lost

static int primary(const void *context)
{
	return (u64)context - (u64)contexts < sizeof(contexts);
}

// failure is what every call in the current context returns.
static int failure(void)
{
	if (sticky)
		return sticky;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!primary(current))
		return CUDA_SUCCESS;
	return __atomic_load_n(&lost[(char *)current - contexts], __ATOMIC_SEQ_CST);
}

#define IN_CONTEXT                        \
	do {                              \
		COUNT;                    \
		if (failure())            \
			return failure(); \
	} while (0)

API CUresult fake_count(const char *name, u64 *n)
{
	*n = 0;
	for (int i = 0; i < 128 && counters[i].name; i++)
		if (!strcmp(counters[i].name, name))
			*n = counters[i].n;
	return CUDA_SUCCESS;
}

API CUresult fake_not_ready(int n)
{
	not_ready = n;
	return CUDA_SUCCESS;
}

API CUresult fake_sticky(int r)
{
	sticky = r;
	return CUDA_SUCCESS;
}

API CUresult fake_lost(u64 gpu, u64 r)
{
	__atomic_store_n(&lost[gpu % 16], (int)r, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

API CUresult fake_fail_create(int n)
{
	fail_create = n;
	return CUDA_SUCCESS;
}

API CUresult fake_options(u64 *out, u64 *n)
{
	memcpy(out, last_option, sizeof(last_option));
	*n = last_options;
	return CUDA_SUCCESS;
}

// name_thread names the calling thread, as the driver does.
static int name_thread(void)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", gettid());
	f = fopen(path, "w");
	if (!f)
		return 0;
	fputs("fake-cuda", f);
	fclose(f);
	return 1;
}

API CUresult cuInit(unsigned flags)
{
	COUNT;
	if (!name_thread())
		return CUDA_ERROR_OPERATING_SYSTEM;
	initialised = 1;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int *v)
{
	*v = 13010;
	return CUDA_SUCCESS;
}

#ifndef FAKE_DEVICES
#define FAKE_DEVICES 1 // if the environment doesn't say
#endif

API CUresult cuDeviceGetCount(int *n)
{
	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	const char *e = getenv("FAKE_DEVICES");
	*n = e ? atoi(e) : FAKE_DEVICES;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(int *d, int i)
{
	*d = i;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *s, int n, int d)
{
	snprintf(s, n, "Fake GPU %d", d);
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(char *u, int d)
{
	for (int i = 0; i < 16; i++)
		u[i] = (char)(16 * d + i + (i > 7) * d);
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetLuid(char *l, unsigned *m, int d)
{
	(void)l;
	(void)m;
	(void)d;
	return CUDA_ERROR_NOT_SUPPORTED;
}

API CUresult cuDeviceTotalMem_v2(size_t *n, int d)
{
	(void)d;
	*n = (size_t)1 << 30;
	return CUDA_SUCCESS;
}

/* Of three GPUs the first two reach one another. */
API CUresult cuDeviceGetP2PAttribute(int *v, int a, int from, int to)
{
	if (a < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
	    a > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	if (from == to)
		return CUDA_ERROR_INVALID_DEVICE;
	if (a == CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		*v = from == 0 && to == 1;
	else
		*v = a == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED && from < 2 && to < 2;
	return CUDA_SUCCESS;
}

/* What there is of operation n is n + 1, between the two that reach one another. */
API CUresult cuDeviceGetP2PAtomicCapabilities(unsigned *v, const int *operations, unsigned n,
					      int from, int to)
{
	for (unsigned i = 0; i < n; i++)
		v[i] = (unsigned)operations[i] + 1;
	return from < 2 && to < 2 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

API CUresult cuDeviceGetAttribute(int *v, int a, int d)
{
	(void)d;
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
		*v = getenv("FAKE_PAGEABLE") != NULL;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*v = 9;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*v = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		*v = 2048;
		return CUDA_SUCCESS;
	}
	*v = 1;
	return a < 1 || a > CUDA_LAST_DEVICE_ATTRIBUTE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(void **c, int d)
{
	COUNT;
	*c = &contexts[d];
	return __atomic_load_n(&lost[d], __ATOMIC_SEQ_CST);
}

API CUresult cuDevicePrimaryCtxRelease_v2(int d)
{
	COUNT;
	(void)d;
	return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxReset_v2(int d)
{
	COUNT;
	(void)d;
	sticky = 0;
	return CUDA_SUCCESS;
}

API CUresult cuCtxCreate_v2(void **c, unsigned f, int d)
{
	COUNT;
	(void)f;
	(void)d;
	below = current;
	*c = current = malloc(1);
	return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(void **c)
{
	COUNT;
	*c = current;
	current = below;
	return CUDA_SUCCESS;
}

static void end_streams(const void *c);
API CUresult cuCtxDestroy_v2(void *c)
{
	COUNT;
	if (current == c)
		current = NULL;
	end_streams(c);
	free(c);
	return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(void *c)
{
	COUNT;
	current = c;
	return CUDA_SUCCESS;
}

API CUresult cuCtxSynchronize(void)
{
	IN_CONTEXT;
	not_ready = 0;
	return CUDA_SUCCESS;
}

API CUresult cuCtxGetStreamPriorityRange(int *l, int *g)
{
	*l = 0;
	*g = -5;
	return CUDA_SUCCESS;
}

static size_t limit[CU_LIMIT_MALLOC_HEAP_SIZE + 1] = { 1000, 1001, 1002 };
API CUresult cuCtxGetLimit(size_t *v, int l)
{
	IN_CONTEXT;
	*v = l <= CU_LIMIT_MALLOC_HEAP_SIZE ? limit[l] : 1000 + (size_t)l;
	return CUDA_SUCCESS;
}

API CUresult cuCtxSetLimit(int l, size_t v)
{
	IN_CONTEXT;
	if (l > CU_LIMIT_MALLOC_HEAP_SIZE || v == 13)
		return CUDA_ERROR_INVALID_VALUE;
	limit[l] = v;
	return CUDA_SUCCESS;
}

#include "fakecode.h"
#include "fakememory.h"
#include "fakestream.h"
#include "fakegraph.h"
#include "fakegreen.h"
#include "faketexture.h"
