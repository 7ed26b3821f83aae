/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory of this process, against the fake worker: until when it is pinned, and by whom. */
#include <string.h>
#include <sys/mman.h>

#include "channel.h"
#include "check.h"
#include "fake_worker.h"
#include "memory_map.h"
#include "zz_generated_prototypes.h"

#define PAGE 4096ul
#define KERNEL_FAILED 700

static CUcontext context;

static uint8_t *pages(unsigned n)
{
	uint8_t *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static bool known(const void *p)
{
	struct memory m;

	return memory_find((uint64_t)(uintptr_t)p, &m);
}

/* What was pinned in a context is pinned no more when it ends, and nothing else. */
static void ends_with_its_context(void)
{
	uint8_t *p = pages(4), *kept = pages(1);
	CUdeviceptr managed;
	CUcontext own;
	void *host;

	CHECK_IS(0, cuMemHostRegister_v2(kept, PAGE, 0));
	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p + 2 * PAGE, PAGE, 1));
	CHECK_IS(0, cuMemHostAlloc(&host, 3 * PAGE, 0));
	CHECK_IS(0, cuMemAllocManaged(&managed, PAGE, ATTACH_GLOBAL));
	CHECK_IS(5, fake.maps_out);
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(1, fake.maps_out);
	CHECK(!known(p) && !known(p + 2 * PAGE) && !known(host) && known(kept));
	p[0] = 1;	/* it is the program's */
	CHECK_IS(0, cuMemHostRegister_v2(p, 4 * PAGE, 0));
	CHECK_IS(0, cuMemHostUnregister(p));
	CHECK_IS(0, cuMemHostUnregister(kept));
	munmap(p, 4 * PAGE);
	munmap(kept, PAGE);
}

static void ends_with_a_reset(void)
{
	uint8_t *p = pages(1);

	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuDevicePrimaryCtxReset_v2(0));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuMemHostUnregister(p));
	munmap(p, PAGE);
}

/* Memory of another process that was opened before isn't mapped after a reset: it is opened anew. */
static void opened_before_a_reset(void)
{
	CUdeviceptr own, first, again;
	CUipcMemHandle handle;

	CHECK_IS(0, cuMemAlloc_v2(&own, 4096));
	CHECK_IS(0, cuIpcGetMemHandle(&handle, own));
	CHECK_IS(0, cuIpcOpenMemHandle_v2(&first, handle, 1));
	CHECK_IS(0, cuIpcOpenMemHandle_v2(&again, handle, 1));
	CHECK(first == again);
	CHECK_IS(1, fake.opens);
	CHECK_IS(0, cuDevicePrimaryCtxReset_v2(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(first));
	CHECK_IS(0, cuIpcOpenMemHandle_v2(&again, handle, 1));
	CHECK_IS(2, fake.opens);
	CHECK(known((void *)(uintptr_t)again));
	CHECK_IS(0, cuIpcCloseMemHandle(again));
}

/* A program that doesn't wait for its work: what frees or unregisters the memory does, whatever failed before. */
static void waits_for_the_work(void)
{
	uint8_t *p = pages(1);
	unsigned syncs = fake.syncs;
	CUcontext own;
	void *host;

	CHECK_IS(0, cuMemHostAlloc(&host, PAGE, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((uint8_t *)host + 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(host));
	CHECK_IS(syncs, fake.syncs);
	CHECK_IS(0, cuMemFreeHost(host));
	CHECK_IS(syncs + 1, fake.syncs);
	channel.header->async_error = CUDA_ERROR_NOT_SUPPORTED;
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemHostUnregister(p));
	CHECK_IS(syncs + 2, fake.syncs);
	CHECK_IS(0, fake.maps_out);
	/* Work of the current context may use memory of another. */
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	CHECK_IS(0, cuMemHostUnregister(p));
	CHECK_IS(syncs + 4, fake.syncs);
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(syncs + 4, fake.syncs);
	CHECK_IS(0, cuCtxSetCurrent(context));
	munmap(p, PAGE);
}

/* A kernel has failed: nothing can be done any more but to end, which gives the pages back. */
static void ends_after_a_fault(void)
{
	uint8_t *p = pages(1);
	void *host;

	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuMemHostAlloc(&host, PAGE, 0));
	fake_stick(KERNEL_FAILED);
	CHECK_IS(KERNEL_FAILED, cuMemFreeHost(host));
	cuDevicePrimaryCtxReset_v2(0);
	CHECK_IS(0, fake.maps_out);
	CHECK(!known(p) && !known(host));
	munmap(p, PAGE);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	host_memory_next = UINT64_MAX / 2;	/* its shadow memory lies there */
#endif
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	ends_with_its_context();
	ends_with_a_reset();
	opened_before_a_reset();
	waits_for_the_work();
	CHECK_IS(0, fake.maps_out);
	ends_after_a_fault();
	return 0;
}
