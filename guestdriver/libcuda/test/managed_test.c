/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory and what is advised about it, against the fake worker. */
#include <string.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "fake_worker.h"

#define PAGE 4096ul

static CUcontext context;

static void allocations(void)
{
	unsigned char other[100], *p;
	CUdeviceptr a, base;
	size_t bytes;
	int n;

	CHECK_IS(0, cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
	CHECK_IS(1, n);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(NULL, 100, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&a, 0, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&a, 100, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&a, 100, CU_MEM_ATTACH_SINGLE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemAllocManaged(&a, 100, CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST));
	CHECK_IS(CUDA_ERROR_OUT_OF_MEMORY,
		 cuMemAllocManaged(&a, (size_t)1 << 60, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(0, cuMemAllocManaged(&a, 1000, CU_MEM_ATTACH_HOST));
	CHECK_IS(1, fake.maps_out);
	CHECK_IS(0, cuMemGetAddressRange_v2(&base, &bytes, a + 999));
	CHECK(base == a && bytes == 1000);
	p = (unsigned char *)(uintptr_t)a;
	for (int i = 0; i < 1000; i++)
		CHECK_IS(0, p[i]);
	CHECK_IS(0, cuMemsetD8_v2(a + 10, 7, 50));
	CHECK(p[9] == 0 && p[10] == 7 && p[59] == 7 && p[60] == 0);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(a + 10, 7, 991));
	memset(other, 9, sizeof(other));
	CHECK_IS(0, cuMemcpyHtoD_v2(a + 20, other, 10));
	CHECK(p[19] == 7 && p[20] == 9 && p[29] == 9 && p[30] == 7);
	CHECK_IS(0, cuMemcpy(a + 500, a, 100));
	CHECK(p[499] == 0 && p[520] == 9 && p[559] == 7);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy(a + 901, a, 100));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a + 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
	CHECK_IS(0, cuMemFree_v2(a));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a));
}

static void pointers(void)
{
	int attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,   CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE
	};
	uint64_t value[7] = { 0 };
	void *data[7];
	CUdeviceptr a;

	for (int i = 0; i < 7; i++)
		data[i] = &value[i];
	CHECK_IS(0, cuMemAllocManaged(&a, 5000, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(0, cuPointerGetAttributes(7, attributes, data, a + 4000));
	CHECK_IS(CU_MEMORYTYPE_DEVICE, value[0]);
	CHECK(value[1] == a + 4000 && value[2] == a + 4000);
	CHECK_IS(1, value[3]);
	CHECK_IS(0, value[4]);
	CHECK(value[5] == a && value[6] == 5000);
	CHECK_IS(0, cuPointerGetAttribute(&value[0], CU_POINTER_ATTRIBUTE_HOST_POINTER, a));
	CHECK(value[0] == a);
	CHECK_IS(0, cuMemFree_v2(a));
}

static int asked(int attribute, CUdeviceptr at, size_t bytes)
{
	int value = -99;

	CHECK_IS(0, cuMemRangeGetAttribute(&value, 4, attribute, at, bytes));
	return value;
}

/*
 * Allocations that lie side by side: what is said of one is said of no other, nor of what comes
 * after it.
 */
static void advice_of_neighbours(void)
{
	enum { ALL = 45, FIRST = 36 };
	CUdeviceptr p[ALL];

	for (unsigned i = 0; i < ALL; i++)
		CHECK_IS(0, cuMemAllocManaged(&p[i], PAGE, CU_MEM_ATTACH_GLOBAL));
	for (unsigned i = FIRST; i < FIRST + 3; i++) {
		CHECK(p[i] == p[i - 1] + PAGE);
		CHECK_IS(0, cuMemAdvise(p[i], PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	}
	CHECK_IS(0, cuMemFree_v2(p[FIRST + 1]));
	CHECK_IS(0, cuMemAllocManaged(&p[FIRST + 1], PAGE, CU_MEM_ATTACH_GLOBAL));
	CHECK(p[FIRST + 1] == p[FIRST] + PAGE);
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p[FIRST], 1));
	CHECK_IS(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p[FIRST + 1], 1));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p[FIRST + 2], 1));
	CHECK_IS(0, cuMemAdvise(p[FIRST + 1], PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	CHECK_IS(0, cuMemFree_v2(p[FIRST]));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p[FIRST + 1], 1));
	CHECK_IS(0, cuMemFree_v2(p[FIRST + 2]));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p[FIRST + 1], 1));
	p[FIRST] = p[FIRST + 2] = 0;
	for (unsigned i = 0; i < ALL; i++)
		if (p[i])
			CHECK_IS(0, cuMemFree_v2(p[i]));
}

/* Advice about the memory at a: 10 pages. */
static void advised_to_read(CUdeviceptr a)
{
	CHECK_IS(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a, 1));
	CHECK_IS(0, cuMemAdvise(a + 2 * PAGE + 5, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 77));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a + 2 * PAGE, 2 * PAGE));
	CHECK_IS(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a + 2 * PAGE, 2 * PAGE + 1));
	CHECK_IS(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a + 2 * PAGE - 1, 2));
	CHECK_IS(0, cuMemAdvise(a + 3 * PAGE, 1, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a + 2 * PAGE, PAGE));
	CHECK_IS(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a + 3 * PAGE, PAGE));
}

static void advised_where(CUdeviceptr a)
{
	CHECK_IS(CU_DEVICE_INVALID, asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a, 10 * PAGE));
	CHECK_IS(0, cuMemAdvise(a, 10 * PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a, 10 * PAGE));
	CHECK_IS(CU_MEM_LOCATION_TYPE_DEVICE,
		 asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, a, 10 * PAGE));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, a, 10 * PAGE));
	CHECK_IS(0, cuMemAdvise(a + 5 * PAGE, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
				CU_DEVICE_CPU));
	CHECK_IS(CU_DEVICE_CPU,
		 asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a + 5 * PAGE, PAGE));
	CHECK_IS(CU_DEVICE_INVALID, asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a, 10 * PAGE));
	CHECK_IS(CU_MEM_LOCATION_TYPE_INVALID,
		 asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, a, 10 * PAGE));
	CHECK_IS(0, cuMemAdvise_v2(a, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
				   (CUmemLocation){ CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 }));
	CHECK_IS(CU_MEM_LOCATION_TYPE_HOST_NUMA,
		 asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, a, 1));
	CHECK_IS(CU_DEVICE_CPU, asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a, 1));
	CHECK_IS(0, cuMemAdvise(a, 10 * PAGE, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
	CHECK_IS(CU_DEVICE_INVALID, asked(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, a, PAGE));
}

static void advised_by_whom(CUdeviceptr a)
{
	int list[3];

	CHECK_IS(0, cuMemAdvise(a, 10 * PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, 1));
	CHECK_IS(0, cuMemAdvise(a, 4 * PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
	CHECK_IS(0, cuMemRangeGetAttribute(list, sizeof(list), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
					   a, 4 * PAGE));
	CHECK(list[0] == 1 && list[1] == CU_DEVICE_CPU && list[2] == CU_DEVICE_INVALID);
	CHECK_IS(0, cuMemRangeGetAttribute(list, sizeof(list), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
					   a, 5 * PAGE));
	CHECK(list[0] == 1 && list[1] == CU_DEVICE_INVALID);
	CHECK_IS(0, cuMemAdvise(a, PAGE, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 1));
	CHECK_IS(CU_DEVICE_INVALID, asked(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, a, 5 * PAGE));
}

static void refused_advice(CUdeviceptr a)
{
	int list[3];

	/* The last byte's page may lie beyond what was asked for, not beyond the allocation. */
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemAdvise(a, 10 * PAGE + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(a, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(a, PAGE, 7, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemAdvise((CUdeviceptr)(uintptr_t)list, 4, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE,
		 cuMemAdvise(a, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 2));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemAdvise_v2(a, PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY,
				(CUmemLocation){ CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 }));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemRangeGetAttribute(list, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a, PAGE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemRangeGetAttribute(list, 3, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, a, PAGE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute(list, 4, 9, a, PAGE));
}

static void advice(void)
{
	CUdeviceptr a, b;
	int value;

	CHECK_IS(0, cuMemAllocManaged(&a, 10 * PAGE, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(0, cuMemAllocManaged(&b, PAGE, CU_MEM_ATTACH_GLOBAL));
	advised_to_read(a);
	advised_where(a);
	advised_by_whom(a);
	refused_advice(a);

	/* Advice goes with the memory. */
	CHECK_IS(0, cuMemAdvise(b, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	CHECK_IS(0, cuMemFree_v2(a));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, b, PAGE));
	CHECK_IS(0, cuMemFree_v2(b));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, b, PAGE));
}

static void prefetches(void)
{
	CUmemLocation where[] = { { CU_MEM_LOCATION_TYPE_DEVICE, 1 },
				  { CU_MEM_LOCATION_TYPE_HOST, 55 } };
	size_t first[] = { 0, 2 }, sizes[] = { PAGE, PAGE, PAGE };
	CUdeviceptr a, at[3];
	CUstream s;

	CHECK_IS(0, cuStreamCreate(&s, 0));
	CHECK_IS(0, cuMemAllocManaged(&a, 4 * PAGE, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(CU_DEVICE_INVALID, asked(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, PAGE));
	CHECK_IS(0, cuMemPrefetchAsync(a, 2 * PAGE, 0, s));
	CHECK_IS(0, asked(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, 2 * PAGE));
	CHECK_IS(CU_DEVICE_INVALID,
		 asked(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, 3 * PAGE));
	CHECK_IS(0, cuMemPrefetchAsync(a + PAGE, PAGE, CU_DEVICE_CPU, NULL));
	CHECK_IS(CU_DEVICE_CPU,
		 asked(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a + PAGE, PAGE));
	for (int i = 0; i < 3; i++)
		at[i] = a + i * PAGE;
	CHECK_IS(0, cuMemPrefetchBatchAsync(at, sizes, 3, where, first, 2, 0, s));
	CHECK_IS(1, asked(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, 2 * PAGE));
	CHECK_IS(CU_MEM_LOCATION_TYPE_HOST,
		 asked(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, a + 2 * PAGE, PAGE));
	first[1] = 3;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPrefetchBatchAsync(at, sizes, 3, where, first, 2, 0, s));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPrefetchBatchAsync(at, sizes, 3, where, first, 1, 1, s));
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(a, PAGE, 2, s));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(a, 0, CU_DEVICE_INVALID, s));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(a, 5 * PAGE, 0, s));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuMemPrefetchAsync(a, PAGE, 0, (CUstream)&a));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2(a, PAGE, where[0], 1, s));

	CHECK_IS(0, cuStreamAttachMemAsync(s, a, 0, CU_MEM_ATTACH_SINGLE));
	CHECK_IS(0, cuStreamAttachMemAsync(NULL, a, 4 * PAGE, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuStreamAttachMemAsync(NULL, a, 0, CU_MEM_ATTACH_SINGLE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(s, a, PAGE, CU_MEM_ATTACH_HOST));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(s, a, 0, 3));
	CHECK_IS(0, cuMemFree_v2(a));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(s, a, 0, CU_MEM_ATTACH_HOST));
	CHECK_IS(0, cuStreamDestroy_v2(s));
}

static void ends_with_its_context(void)
{
	CUcontext own;
	CUdeviceptr a, b;
	struct memory m;

	CHECK_IS(0, cuMemAllocManaged(&a, PAGE, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	CHECK_IS(0, cuMemAllocManaged(&b, PAGE, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(2, fake.maps_out);
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(1, fake.maps_out);
	CHECK(!memory_find(b, &m));
	CHECK_IS(0, cuCtxSetCurrent(context));
	*(volatile char *)(uintptr_t)a = 1;
	CHECK_IS(0, cuMemFree_v2(a));
}

/* The variables of a module or library: memory that it goes with. */
static void check_variable(CUdeviceptr at, size_t bytes)
{
	CUdeviceptr base;
	size_t size;
	int managed;

	CHECK_IS(1, bytes);
	CHECK_IS(42, *(volatile unsigned char *)(uintptr_t)at);
	CHECK_IS(0, cuMemGetAddressRange_v2(&base, &size, at));
	CHECK_IS(5000, size);
	CHECK_IS(0, cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
	CHECK_IS(1, managed);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(at));
	CHECK_IS(0, cuMemPrefetchAsync(at, bytes, 0, NULL));
}

static void variables(void)
{
	static const char image[] = ".version 8.0 // managed\n";
	CUdeviceptr at = 0;
	CUlibrary library;
	CUmodule module;
	CUcontext own;
	size_t bytes;

	CHECK_IS(0, cuModuleLoadData(&module, image));
	CHECK_IS(1, fake.maps_out);
	CHECK_IS(0, cuModuleGetGlobal_v2(&at, &bytes, module, "x"));
	check_variable(at, bytes);
	CHECK_IS(0, cuModuleUnload(module));
	CHECK_IS(0, fake.maps_out);

	CHECK_IS(0, cuCtxSetCurrent(NULL));
	CHECK_IS(0, cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuLibraryGetManaged(&at, &bytes, library, "x"));
	check_variable(at, bytes);
	CHECK_IS(0, cuLibraryGetManaged(NULL, &bytes, library, "x"));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLibraryGetManaged(NULL, NULL, library, "x"));
	fake.lie_managed = true;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuLibraryGetManaged(&at, &bytes, library, "x"));
	fake.lie_managed = false;
	/* A library outlives contexts, a module doesn't. */
	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	CHECK_IS(0, cuModuleLoadData(&module, image));
	CHECK_IS(2, fake.maps_out);
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(1, fake.maps_out);
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuLibraryUnload(library));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetManaged(&at, &bytes, library, "x"));

	fake.lie_length = true;
	CHECK_IS(CUDA_ERROR_OUT_OF_MEMORY, cuModuleLoadData(&module, image));
	fake.lie_length = false;
	CHECK_IS(0, fake.maps_out);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	host_memory_next = UINT64_MAX / 2; /* its shadow memory lies there */
#endif
	fake.devices = 2;
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	allocations();
	pointers();
	advice();
	advice_of_neighbours();
	prefetches();
	ends_with_its_context();
	variables();
	CHECK_IS(0, fake.maps_out);
	return 0;
}
