/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the driver can't pin now, or at all, against the fake worker. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "fake_worker.h"
#include "hostmemory/host_memory.h"
#include "transport/buffer.h"
#include "transport/transport.h"

static const struct transport *real;
static int refusal; /* errno of MAP */
static unsigned refusals, asked;

static int refuse(struct paracuda_ioctl_map *map)
{
	asked++;
	if (!refusals)
		return real->map(map);
	refusals--;
	return refusal;
}

static CUresult allocate(int error, unsigned times)
{
	void *p = NULL;
	CUresult result;

	refusal = error;
	refusals = times;
	asked = 0;
	result = cuMemHostAlloc(&p, 4096, 0);
	if (!result)
		CHECK_IS(0, cuMemFreeHost(p));
	return result;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(void)
{
	struct transport mine;
	CUcontext context;

#ifdef __SANITIZE_THREAD__
	host_memory_next = UINT64_MAX / 2; /* its shadow memory lies there */
#endif
	fake_install();
	real = transport;
	mine = *real;
	mine.map = refuse;
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	transport = &mine;

	/* What passes is waited for. */
	CHECK_IS(0, allocate(EAGAIN, 50));
	CHECK_IS(0, allocate(EBUSY, 50));
	CHECK_IS(51, asked);

	/* What doesn't isn't. */
	CHECK_IS(CUDA_ERROR_OUT_OF_MEMORY, allocate(ENOSPC, -1u));
	CHECK_IS(1, asked);
	CHECK_IS(CUDA_ERROR_OUT_OF_MEMORY, allocate(ENOMEM, -1u));
	CHECK_IS(1, asked);

	/*
	 * Others may have pinned memory for copies that never end: this costs time, and no
	 * processor.
	 */
	map_patience_ns = 200000000;
	uint64_t used = cpu_ns();

	CHECK_IS(CUDA_ERROR_OUT_OF_MEMORY, allocate(EBUSY, -1u));
	CHECK(asked > 100 && asked < 400);
	CHECK(cpu_ns() - used < 200000000);
	CHECK_IS(0, allocate(0, 0));
	return 0;
}
