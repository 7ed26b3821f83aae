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

typedef int32_t CUresult;
typedef uint64_t u64;
#define API __attribute__((visibility("default")))

enum {
	OK = 0,
	INVALID = 1,
	NO_MEMORY = 2,
	NOT_INIT = 3,
	BAD_CONTEXT = 201,
	OS_ERROR = 304,
	BAD_HANDLE = 400,
	NOT_FOUND = 500,
	NOT_READY = 600
};

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
static int not_ready; // queries that answer NOT_READY
static int sticky; // what every call in a context returns
static int fail_create; // allocations that fail
static u64 last_option[16];
static u64 last_options;
static __thread void *current, *below;

#define IN_CONTEXT                          \
	do {                                \
		COUNT;                      \
		if (sticky)                 \
			return sticky;      \
		if (!current)               \
			return BAD_CONTEXT; \
	} while (0)

API CUresult fake_count(const char *name, u64 *n)
{
	*n = 0;
	for (int i = 0; i < 128 && counters[i].name; i++)
		if (!strcmp(counters[i].name, name))
			*n = counters[i].n;
	return OK;
}

API CUresult fake_not_ready(int n)
{
	not_ready = n;
	return OK;
}

API CUresult fake_sticky(int r)
{
	sticky = r;
	return OK;
}

API CUresult fake_fail_create(int n)
{
	fail_create = n;
	return OK;
}

API CUresult fake_options(u64 *out, u64 *n)
{
	memcpy(out, last_option, sizeof(last_option));
	*n = last_options;
	return OK;
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
		return OS_ERROR;
	initialised = 1;
	return flags ? INVALID : OK;
}

API CUresult cuDriverGetVersion(int *v)
{
	*v = 13010;
	return OK;
}

API CUresult cuDeviceGetCount(int *n)
{
	if (!initialised)
		return NOT_INIT;
	const char *e = getenv("FAKE_DEVICES");
	*n = e ? atoi(e) : 1;
	return OK;
}

API CUresult cuDeviceGet(int *d, int i)
{
	*d = i;
	return OK;
}

API CUresult cuDeviceGetName(char *s, int n, int d)
{
	snprintf(s, n, "Fake GPU %d", d);
	return OK;
}

API CUresult cuDeviceGetUuid_v2(char *u, int d)
{
	for (int i = 0; i < 16; i++)
		u[i] = (char)(16 * d + i + (i > 7) * d);
	return OK;
}

API CUresult cuDeviceGetLuid(char *l, unsigned *m, int d)
{
	(void)l;
	(void)m;
	(void)d;
	return 801;
}

API CUresult cuDeviceTotalMem_v2(size_t *n, int d)
{
	(void)d;
	*n = (size_t)1 << 30;
	return OK;
}

/* Of three GPUs the first two reach one another. */
API CUresult cuDeviceGetP2PAttribute(int *v, int a, int from, int to)
{
	if (a < 1 || a > 5)
		return INVALID;
	if (from == to)
		return 101;
	*v = a == 2 && from < 2 && to < 2;
	return OK;
}

API CUresult cuDeviceGetAttribute(int *v, int a, int d)
{
	(void)d;
	if (a < 1 || a > 143)
		return INVALID;
	*v = a == 88 ? getenv("FAKE_PAGEABLE") != NULL :
	     a == 75 ? 9 :
	     a == 76 ? 0 :
	     a == 39 ? 2048 :
		       1;
	return OK;
}

static char contexts[16];
API CUresult cuDevicePrimaryCtxRetain(void **c, int d)
{
	COUNT;
	*c = &contexts[d];
	return OK;
}

API CUresult cuDevicePrimaryCtxRelease_v2(int d)
{
	COUNT;
	(void)d;
	return OK;
}

API CUresult cuDevicePrimaryCtxReset_v2(int d)
{
	COUNT;
	(void)d;
	sticky = 0;
	return OK;
}

API CUresult cuCtxCreate_v2(void **c, unsigned f, int d)
{
	COUNT;
	(void)f;
	(void)d;
	below = current;
	*c = current = malloc(1);
	return OK;
}

API CUresult cuCtxPopCurrent_v2(void **c)
{
	COUNT;
	*c = current;
	current = below;
	return OK;
}

static void end_streams(const void *c);
API CUresult cuCtxDestroy_v2(void *c)
{
	COUNT;
	if (current == c)
		current = NULL;
	end_streams(c);
	free(c);
	return OK;
}

API CUresult cuCtxSetCurrent(void *c)
{
	COUNT;
	current = c;
	return OK;
}

API CUresult cuCtxSynchronize(void)
{
	IN_CONTEXT;
	not_ready = 0;
	return OK;
}

API CUresult cuCtxGetStreamPriorityRange(int *l, int *g)
{
	*l = 0;
	*g = -5;
	return OK;
}

static size_t limit[3] = { 1000, 1001, 1002 };
API CUresult cuCtxGetLimit(size_t *v, int l)
{
	IN_CONTEXT;
	*v = l < 3 ? limit[l] : 1000 + (size_t)l;
	return OK;
}

API CUresult cuCtxSetLimit(int l, size_t v)
{
	IN_CONTEXT;
	if (l > 2 || v == 13)
		return INVALID;
	limit[l] = v;
	return OK;
}

#include "fakecode.h"
#include "fakememory.h"
#include "fakestream.h"
#include "fakegraph.h"
#include "fakegreen.h"
#include "faketexture.h"
