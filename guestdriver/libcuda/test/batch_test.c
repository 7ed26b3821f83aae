/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of copies: when each has read its source, against the fake worker. */
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/handle.h"
#include "fake_worker.h"

/*
 * A batch of one copy whose source changes as soon as the call has returned: what arrives. The
 * worker is slow then, or, where the source is read in stream order, takes nothing before it has
 * changed.
 */
static uint8_t batch_of(uint8_t *from, size_t bytes, int order, bool box)
{
	CUDA_MEMCPY3D_BATCH_OP op = { .extent = { bytes, 1, 1 }, .srcAccessOrder = order };
	CUmemcpyAttributes attributes = { .srcAccessOrder = order };
	CUdeviceptr to, source = number_of(from);
	size_t first = 0;
	uint8_t got;

	CHECK_IS(0, cuMemAlloc_v2(&to, bytes));
	memset(from, 0x11, bytes);
	CHECK_IS(0, cuCtxSynchronize());
	op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op.src.op.ptr.ptr = source;
	op.dst.op.ptr.ptr = to;
	__atomic_store_n(&fake.stall_us, 50000, __ATOMIC_RELAXED);
	__atomic_store_n(&fake.shut, order == 1, __ATOMIC_RELAXED);
	if (box)
		CHECK_IS(0, cuMemcpy3DBatchAsync_v2(1, &op, 0, (CUstream)2));
	else
		CHECK_IS(0, cuMemcpyBatchAsync_v2(&to, &source, &bytes, 1, &attributes, &first, 1,
						  (CUstream)2));
	memset(from, 0x22, bytes);
	__atomic_store_n(&fake.shut, false, __ATOMIC_RELEASE);
	CHECK_IS(0, cuCtxSynchronize());
	__atomic_store_n(&fake.stall_us, 0, __ATOMIC_RELAXED);
	CHECK_IS(0, cuMemcpyDtoH_v2(&got, to, 1));
	CHECK_IS(0, cuMemFree_v2(to));
	return got;
}

static void batches(void)
{
	static const size_t sizes[] = { 64, 8192, 3 << 20 };
	CUmemcpyAttributes attributes[2] = { { .srcAccessOrder = 1 }, { .srcAccessOrder = 3 } };
	CUdeviceptr managed, to[2], from[2];
	size_t first[2] = { 0, 1 }, bytes[2] = { 8, 8 };
	void *pinned;

	CHECK_IS(0, cuMemHostAlloc(&pinned, 3 << 20, 0));
	CHECK_IS(0, cuMemAllocManaged(&managed, 64, 1));
	CHECK_IS(0x22, batch_of(pinned, 64, 1, false));
	CHECK_IS(0x22, batch_of(pinned, 64, 1, true));
	for (unsigned i = 0; i < 6; i++)
		CHECK_IS(0x11, batch_of(pinned, sizes[i / 2], 2, i % 2));
	CHECK_IS(0x11, batch_of((uint8_t *)(uintptr_t)managed, 64, 2, false));
	CHECK_IS(0x11, batch_of((uint8_t *)(uintptr_t)managed, 64, 2, true));

	for (unsigned i = 0; i < 2; i++)
		from[i] = number_of(pinned), to[i] = managed;
	CHECK_IS(0, cuMemcpyBatchAsync_v2(to, from, bytes, 2, attributes, first, 2, (CUstream)2));
	first[1] = 2;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemcpyBatchAsync_v2(to, from, bytes, 2, attributes, first, 2, (CUstream)2));
	first[1] = 0;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemcpyBatchAsync_v2(to, from, bytes, 2, attributes, first, 2, (CUstream)2));
	first[1] = 1;
	attributes[1].srcAccessOrder = 4;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemcpyBatchAsync_v2(to, from, bytes, 2, attributes, first, 2, (CUstream)2));
	attributes[1].srcAccessOrder = 0;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemcpyBatchAsync_v2(to, from, bytes, 2, attributes, first, 2, (CUstream)2));
	CHECK_IS(0, cuMemFree_v2(managed));
	CHECK_IS(0, cuMemFreeHost(pinned));
}

int main(void)
{
	CUcontext context;

#ifdef __SANITIZE_THREAD__
	host_memory_next = UINT64_MAX / 2; /* its shadow memory lies there */
#endif
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	batches();
	return 0;
}
