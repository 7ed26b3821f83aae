/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of all kinds and sizes, pinned memory, and what is known of pointers, against the fake
 * worker.
 */
#include <string.h>
#include <unistd.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "fake_worker.h"
#include "transport/channel.h"

static void copies(size_t bytes)
{
	uint8_t *in = malloc(bytes), *out = calloc(1, bytes);
	CUdeviceptr a, b;

	for (size_t i = 0; i < bytes; i++)
		in[i] = (uint8_t)(i * 7 + i / 4096);
	CHECK_IS(0, cuMemAlloc_v2(&a, bytes));
	CHECK_IS(0, cuMemAlloc_v2(&b, bytes));
	CHECK_IS(0, cuMemcpyHtoD_v2(a, in, bytes));
	CHECK_IS(0, cuMemcpyDtoDAsync_v2(b, a, bytes, NULL));
	CHECK_IS(0, cuMemcpyDtoH_v2(out, b, bytes));
	CHECK(!memcmp(in, out, bytes));
	memset(out, 0, bytes);
	CHECK_IS(0, cuMemcpy((CUdeviceptr)(uintptr_t)out, a, bytes));
	CHECK(!memcmp(in, out, bytes));
	CHECK_IS(0, cuMemsetD8_v2(a, 9, bytes));
	CHECK_IS(0, cuMemcpyDtoHAsync_v2(out, a, bytes, NULL));
	CHECK(out[0] == 9 && out[bytes - 1] == 9);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a, in, bytes + 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(a, 0, bytes + 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(a + 1, 0, 1));
	CHECK_IS(0, cuMemFree_v2(a));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a, in, bytes));
	CHECK_IS(0, cuMemFree_v2(b));
	CHECK_IS(0, fake.maps_out);
	free(in);
	free(out);
}

static void boxes(unsigned width, unsigned height, unsigned depth)
{
	size_t pitch = width + 24, device_pitch, bytes = pitch * height * depth;
	uint8_t *in = malloc(bytes), *out = calloc(1, bytes);
	CUDA_MEMCPY3D c = {
		.srcMemoryType = 1,
		.srcHost = in,
		.srcPitch = pitch,
		.srcHeight = height,
		.dstMemoryType = 2,
		.dstHeight = height,
		.WidthInBytes = width,
		.Height = height,
		.Depth = depth,
	};
	CUdeviceptr a;

	for (size_t i = 0; i < bytes; i++)
		in[i] = (uint8_t)(i * 3);
	CHECK_IS(0, cuMemAllocPitch_v2(&a, &device_pitch, width, height * depth, 4));
	CHECK_IS(0, device_pitch % 512);
	c.dstDevice = a;
	c.dstPitch = device_pitch;
	CHECK_IS(0, cuMemcpy3D_v2(&c));
	c = (CUDA_MEMCPY3D){
		.srcMemoryType = 4,
		.srcDevice = a,
		.srcPitch = device_pitch,
		.srcHeight = height,
		.dstMemoryType = 4,
		.dstDevice = (CUdeviceptr)(uintptr_t)out,
		.dstPitch = pitch,
		.dstHeight = height,
		.WidthInBytes = width,
		.Height = height,
		.Depth = depth,
	};
	CHECK_IS(0, cuMemcpy3DAsync_v2(&c, NULL));
	for (size_t row = 0; row < (size_t)height * depth; row++) {
		CHECK(!memcmp(in + row * pitch, out + row * pitch, width));
		CHECK_IS(0, out[row * pitch + width]);
	}
	CHECK_IS(0, cuMemFree_v2(a));
	CHECK_IS(0, fake.maps_out);
	free(in);
	free(out);
}

static void pinned(void)
{
	size_t bytes = 5 << 20;
	unsigned type, flags;
	CUdeviceptr a, d;
	uint8_t *p, *q = NULL;
	void *results[3];
	int attributes[3] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
			      CU_POINTER_ATTRIBUTE_DEVICE_POINTER };
	int ordinal;
	CUdeviceptr device = 1;

	CHECK_IS(0, cuMemHostAlloc((void **)&p, bytes, 0));
	CHECK(fake.maps_out >= 1);
	memset(p, 5, bytes);
	CHECK_IS(0, cuMemHostGetDevicePointer_v2(&d, p + 3, 0));
	CHECK(d == (CUdeviceptr)(uintptr_t)p + 3);
	CHECK_IS(0, cuMemHostGetFlags(&flags, p));
	CHECK_IS(CU_MEMHOSTALLOC_DEVICEMAP, flags);
	CHECK_IS(0, cuMemAlloc_v2(&a, bytes));
	CHECK_IS(0, cuMemcpyHtoDAsync_v2(a, p, bytes, NULL));
	CHECK_IS(0, cuStreamSynchronize(NULL));
	memset(p, 0, bytes);
	CHECK_IS(0, cuMemcpyDtoH_v2(p + 100, a, bytes - 100));
	CHECK(p[99] == 0 && p[100] == 5 && p[bytes - 1] == 5);
	CHECK_IS(0, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					  (CUdeviceptr)(uintptr_t)p + 1));
	CHECK_IS(CU_MEMORYTYPE_HOST, type);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       (CUdeviceptr)(uintptr_t)&type));
	results[0] = &type;
	results[1] = &ordinal;
	results[2] = &device;
	CHECK_IS(0, cuPointerGetAttributes(3, attributes, results, (CUdeviceptr)(uintptr_t)&type));
	CHECK(type == 0 && ordinal == CU_DEVICE_INVALID && device == 0);
	CHECK_IS(0, cuPointerGetAttributes(3, attributes, results, a + 7));
	CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 0 && device == a + 7);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(p));
	CHECK_IS(0, cuMemFreeHost(p));
	q = malloc(100000);
	CHECK_IS(0, cuMemHostRegister_v2(q, 100000, 0));
	CHECK_IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(q + 10, 10, 0));
	CHECK_IS(0, cuMemcpyDtoHAsync_v2(q + 1, a, 99999, NULL));
	CHECK_IS(0, cuCtxSynchronize());
	CHECK(q[1] == 5 && q[99999] == 5);
	CHECK_IS(0, cuMemHostUnregister(q));
	CHECK_IS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(q));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(0, cuMemFree_v2(a));
	free(q);
}

/*
 * A copy that begins in memory that was registered or allocated for the host and ends beyond it is
 * refused, in either direction; one that runs from ordinary memory into such memory isn't.
 */
static void beyond(void)
{
	enum { BYTES = 5000, BASE = 100, END = 3000 };
	char *p = malloc(BYTES), *allocated;
	CUdeviceptr a;
	CUDA_MEMCPY2D rows = {
		.srcMemoryType = 1,
		.srcHost = p + BASE,
		.srcPitch = 1000,
		.dstMemoryType = 2,
		.dstPitch = 1000,
		.WidthInBytes = 900,
		.Height = 3,
	};

	memset(p, 3, BYTES);
	CHECK_IS(0, cuMemAlloc_v2(&a, BYTES));
	CHECK_IS(0, cuMemHostRegister_v2(p + BASE, END - BASE, 0));
	CHECK_IS(0, cuMemcpyHtoD_v2(a, p + BASE, END - BASE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a, p + BASE, END - BASE + 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(a, p + END - 1, 2, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(p + END - 1, a, 2));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync_v2(p + END - 1, a, BYTES - END, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy(a, number_of(p + END - 4), 8));
	CHECK_IS(0, cuMemcpyHtoD_v2(a, p, END));
	CHECK_IS(0, cuMemcpyDtoH_v2(p + BASE - 1, a, BYTES - BASE));
	CHECK_IS(0, cuMemcpyHtoD_v2(a, p + END, BYTES - END));
	rows.dstDevice = a;
	CHECK_IS(0, cuMemcpy2D_v2(&rows));
	rows.WidthInBytes = 901;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&rows));
	CHECK_IS(0, cuMemHostUnregister(p + BASE));
	CHECK_IS(0, cuMemcpy2D_v2(&rows));
	CHECK_IS(0, cuMemHostAlloc((void **)&allocated, END, 0));
	CHECK_IS(0, cuMemcpyHtoDAsync_v2(a, allocated, END, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(a, allocated + 1, END, NULL));
	CHECK_IS(0, cuMemFreeHost(allocated));
	CHECK_IS(0, cuMemFree_v2(a));
	free(p);
}

/* Fills whose rows aren't a multiple of an element's size apart. */
static void pitches(void)
{
	CUdeviceptr a, pinned;
	void *p;

	CHECK_IS(0, cuMemAlloc_v2(&a, 1024));
	CHECK_IS(0, cuMemsetD2D8_v2(a, 65, 7, 20, 3));
	CHECK_IS(0, cuMemsetD2D16_v2(a, 66, 7, 20, 3));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D16_v2(a, 65, 7, 20, 3));
	CHECK_IS(0, cuMemsetD2D32_v2(a, 68, 7, 7, 3));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(a, 66, 7, 7, 3));
	CHECK_IS(0, cuMemsetD2D32_v2(a, 66, 7, 16, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(a, 66, 7, 4, 2));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32Async(a, 66, 7, 7, 3, NULL));
	CHECK_IS(0, cuMemsetD2D32_v2(a, 0, 7, 16, 1));
	CHECK_IS(0, cuMemHostAlloc(&p, 1024, 0));
	CHECK_IS(0, cuMemHostGetDevicePointer_v2(&pinned, p, 0));
	CHECK_IS(0, cuMemsetD2D32_v2(pinned, 66, 7, 16, 1));
	CHECK_IS(0, cuMemsetD2D16_v2(pinned, 65, 7, 16, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(pinned, 66, 7, 7, 2));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(pinned + 2, 66, 7, 16, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(pinned, 66, 7, 257, 1));
	CHECK_IS(0, cuMemFreeHost(p));
	CHECK_IS(0, cuMemFree_v2(a));
}

/* A call of which only the first buffer can be pinned gives that back. */
static void second_buffer(void)
{
	enum { BYTES = 20 << 20 };
	uint8_t *data = calloc(1, BYTES);
	uint64_t module, used[2];

	fake.max_pinned = BYTES + BYTES / 2;
	CHECK_IS(CUDA_ERROR_OUT_OF_MEMORY,
		 call_cuModuleLoadData(&module, data, BYTES, data, BYTES, NULL, 0, NULL, 0,
				       &used[0], &used[1]));
	fake.max_pinned = 0;
	CHECK_IS(0, fake.maps_out);
	free(data);
}

/*
 * Large copies go in parts, of which no more than two groups are pinned; their errors are the
 * call's.
 */
static void parts(void)
{
	size_t bytes = (size_t)100 << 20, group = (size_t)32 << 20, part = (size_t)8 << 20;
	uint8_t *host = calloc(1, bytes);
	CUdeviceptr a;

	CHECK_IS(0, cuMemAlloc_v2(&a, bytes));
	fake.most_pinned = fake.parts = fake.joins = 0;
	fake.stall_us = 2000; /* pins ahead as far as it may */
	CHECK_IS(0, cuMemcpyHtoD_v2(a, host, bytes));
	fake.stall_us = 0;
	CHECK(fake.parts > 10 && fake.joins >= 3);
	CHECK(fake.most_pinned > group && fake.most_pinned <= 2 * (group + part));
	for (unsigned i = 1; i <= 13; i += 3) {
		fake.fail_part = i;
		CHECK_IS(CUDA_ERROR_ILLEGAL_STATE, cuMemcpyDtoH_v2(host, a, bytes));
		CHECK_IS(0, fake.fail_part);
		CHECK_IS(0, fake.maps_out);
		CHECK_IS(0, cuMemcpyDtoH_v2(host, a, bytes));
	}
	fake.max_pinned = 6 << 20; /* less than the copy would take */
	CHECK_IS(0, cuMemcpyDtoH_v2(host, a, bytes));
	CHECK_IS(0, fake.maps_out);
	fake.max_pinned = 3 << 20; /* less than the first part */
	CHECK_IS(0, cuMemcpyDtoH_v2(host, a, bytes));
	CHECK_IS(0, fake.maps_out);
	fake.max_pinned = 600000; /* less than it needs */
	CHECK_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemcpyDtoH_v2(host, a, bytes));
	CHECK_IS(0, fake.maps_out);
	fake.max_pinned = 0;
	CHECK_IS(0, cuMemFree_v2(a));
	free(host);
}

/*
 * A copy that ends before it begins, with the error of what was delayed, gives back what it has
 * pinned.
 */
static void refused(void)
{
	size_t pitch = 4096, height = 1500;
	uint8_t *in = malloc(pitch * height);
	CUdeviceptr a;
	CUDA_MEMCPY3D c = {
		.srcMemoryType = 1,
		.srcHost = in,
		.srcPitch = pitch,
		.srcHeight = height,
		.dstMemoryType = 2,
		.dstPitch = pitch,
		.dstHeight = height,
		.WidthInBytes = pitch - 8,
		.Height = height,
		.Depth = 1,
	};

	memset(in, 1, pitch * height);
	CHECK_IS(0, cuMemAlloc_v2(&a, pitch * height));
	c.dstDevice = a;
	__atomic_store_n(&fake.post_error, CUDA_ERROR_NOT_SUPPORTED, __ATOMIC_RELAXED);
	CHECK_IS(0, cuMemsetD8Async(a, 0, 4096, NULL));
	while (!__atomic_load_n(&channel.header->async_error, __ATOMIC_ACQUIRE))
		usleep(100);
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy3D_v2(&c));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(0, cuMemcpy3D_v2(&c));
	CHECK_IS(0, cuMemFree_v2(a));
	free(in);
}

/*
 * A copy in parts reports the error of what was delayed when the device has read them all, not
 * between two of them.
 */
static void in_parts(void)
{
	enum { BYTES = 300000 };
	uint8_t *in = malloc(BYTES), *out = calloc(1, BYTES);
	uint32_t limit = channel.header->inline_limit;
	unsigned syncs;
	CUdeviceptr a;

	channel.header->inline_limit = 1 << 20;
	copies(65536);
	copies(65537);
	copies(131072);
	copies(BYTES);
	for (size_t i = 0; i < BYTES; i++)
		in[i] = (uint8_t)(i * 11 + i / 65536);
	CHECK_IS(0, cuMemAlloc_v2(&a, BYTES));
	__atomic_store_n(&fake.post_error, CUDA_ERROR_NOT_SUPPORTED, __ATOMIC_RELAXED);
	CHECK_IS(0, cuMemsetD8Async(a, 0, 4096, NULL));
	while (!__atomic_load_n(&channel.header->async_error, __ATOMIC_ACQUIRE))
		usleep(100);
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemcpyHtoD_v2(a, in, BYTES));
	CHECK_IS(0, cuMemcpyDtoH_v2(out, a, BYTES));
	CHECK(!memcmp(in, out, BYTES));
	syncs = fake.syncs;
	fake.fail_copy = (BYTES + 65535) / 65536;
	CHECK_IS(CUDA_ERROR_ILLEGAL_STATE, cuMemcpyHtoD_v2(a, in, BYTES));
	CHECK_IS(0, fake.fail_copy);
	CHECK_IS(syncs + 1, fake.syncs);
	CHECK_IS(0, cuMemFree_v2(a));
	channel.header->inline_limit = limit;
	free(in);
	free(out);
}

/*
 * A copy that names as the device's what nothing is known of reports its own error, which no later
 * call has to.
 */
static void unknown_address(void)
{
	CUdeviceptr known;
	char *nothing = malloc(64), from[64] = { 0 };

	CHECK_IS(0, cuMemAlloc_v2(&known, 64));
	fake.fail_copy = 1;
	CHECK_IS(CUDA_ERROR_ILLEGAL_STATE, cuMemcpyHtoD_v2(number_of(nothing), from, sizeof(from)));
	fake.fail_copy = 1;
	CHECK_IS(CUDA_ERROR_ILLEGAL_STATE,
		 cuMemcpyHtoDAsync_v2(number_of(nothing), from, sizeof(from), NULL));
	CHECK_IS(0, cuCtxSynchronize());
	fake.fail_copy = 1;
	CHECK_IS(0, cuMemcpyHtoDAsync_v2(known, from, sizeof(from), NULL));
	CHECK_IS(CUDA_ERROR_ILLEGAL_STATE, cuCtxSynchronize());
	CHECK_IS(0, cuMemFree_v2(known));
	free(nothing);
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
	for (size_t bytes = 1; bytes < (size_t)24 << 20; bytes *= 7)
		copies(bytes);
	copies(4096);
	copies(4097);
	copies((size_t)40 << 20);
	beyond();
	pitches();
	second_buffer();
	parts();
	in_parts();
	refused();
	unknown_address();
	fake.max_map = 300000;
	boxes(4000, 500, 3);
	fake.max_map = 0;
	boxes(16, 4, 1);
	boxes(4000, 500, 3);
	pinned();
	fake.max_map = 2 << 20;
	pinned();
	fake.max_map = 0;
	return 0;
}
