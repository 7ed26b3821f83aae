/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations, mappings and pools as this library keeps them, against the fake worker. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "fake_worker.h"
#include "mapping/vmm.h"

#define PAGE VMM_PAGE
#define POSIX_FILE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

/* The thread sanitizer keeps the addresses of reservations for itself. */
#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREADS 1
#else
#define SANITIZED_THREADS 0
#endif

static CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static CUmemAccessDesc all_access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				      CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static void put(CUdeviceptr at, size_t bytes)
{
	CUmemGenericAllocationHandle handle;

	CHECK_IS(0, cuMemCreate(&handle, bytes, &prop, 0));
	CHECK_IS(0, cuMemMap(at, bytes, 0, handle, 0));
	CHECK_IS(0, cuMemSetAccess(at, bytes, &all_access, 1));
	CHECK_IS(0, cuMemRelease(handle));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
}

/*
 * The range that a copy at an address may go across is [from, to) pages from base; 0, 0 for none.
 */
static void range(CUdeviceptr base, CUdeviceptr at, unsigned from, unsigned to)
{
	CUdeviceptr start;
	struct memory m;

	CHECK_IS(to != 0, memory_find(at, &m));
	CHECK_IS(to ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND,
		 cuMemGetAddressRange_v2(&start, NULL, at));
	CHECK_IS(CUDA_SUCCESS, cuMemGetAddressRange_v2(NULL, NULL, at)); /* nothing is asked */
	if (!to)
		return;
	CHECK_IS(base + from * PAGE, m.base);
	CHECK_IS((to - from) * PAGE, m.bytes);
}

/*
 * What a program is told of an address is the one mapping that it belongs to, whatever lies beside
 * it.
 */
static void mapping(CUdeviceptr base, CUdeviceptr at, unsigned from, unsigned to)
{
	CUdeviceptr start = 0, also = 0;
	size_t bytes = 0, size = 0;

	CHECK_IS(0, cuMemGetAddressRange_v2(&start, &bytes, at));
	CHECK_IS(0, cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at));
	CHECK_IS(0, cuPointerGetAttribute(&also, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at));
	CHECK_IS(base + from * PAGE, start);
	CHECK_IS((to - from) * PAGE, bytes);
	CHECK_IS(start, also);
	CHECK_IS(bytes, size);
}

static void mappings(void)
{
	CUmemGenericAllocationHandle handle, again;
	const CUmemLocation unknown = { 9, 0 };
	CUdeviceptr base, other;
	unsigned long long flags;

	CHECK_IS(0, cuMemAddressReserve(&base, 16 * PAGE, 0, 0, 0));
	CHECK_IS(0, cuMemAddressReserve(&other, PAGE, (size_t)1 << 30, 0, 0));
	CHECK(other % ((size_t)1 << 30) == 0);
	CHECK(other >= base + 16 * PAGE || base >= other + PAGE);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&other, PAGE, 3, 0, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, PAGE, &all_access, 1));
	put(base, PAGE);
	put(base + 2 * PAGE, PAGE);
	range(base, base + 1, 0, 1);
	range(base, base + PAGE, 0, 0);
	put(base + PAGE, PAGE);
	put(base + 3 * PAGE, 3 * PAGE);
	range(base, base + 5 * PAGE, 0, 6);
	mapping(base, base, 0, 1);
	mapping(base, base + PAGE + 100, 1, 2);
	mapping(base, base + 5 * PAGE, 3, 6);
	CHECK_IS(0, cuMemGetAccess(&flags, &prop.location, base + 4 * PAGE));
	CHECK_IS(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuMemGetAccess(&flags, &unknown, base));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, &unknown, 0));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED,
		 cuPointerSetAttribute(&flags, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED,
		 cuPointerSetAttribute(&flags, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE + 1,
				       base));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuPointerSetAttribute(&flags, CU_POINTER_ATTRIBUTE_CONTEXT - 1, base));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(base));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base + 3 * PAGE, PAGE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base + 5 * PAGE, 2 * PAGE));

	CHECK_IS(0, cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(base + 4 * PAGE)));
	CHECK_IS(0, cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 3 * PAGE)));
	CHECK_IS(handle, again);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base + 15 * PAGE, 3 * PAGE, 0, handle, 0));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base + 8 * PAGE, PAGE, 0, handle, 0));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base + 8 * PAGE, 3 * PAGE, PAGE, handle, 0));
	CHECK_IS(0, cuMemRelease(handle));
	CHECK_IS(0, cuMemRelease(handle));

	CHECK_IS(0, cuMemUnmap(base + PAGE, 2 * PAGE));
	range(base, base + PAGE / 2, 0, 1);
	range(base, base + 2 * PAGE, 0, 0);
	range(base, base + 3 * PAGE, 3, 6);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 16 * PAGE));
	CHECK_IS(0, cuMemUnmap(base, PAGE));
	CHECK_IS(0, cuMemUnmap(base + 3 * PAGE, 3 * PAGE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 15 * PAGE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 15 * PAGE + PAGE / 2));
	CHECK_IS(0, cuMemAddressFree(base, 16 * PAGE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 16 * PAGE));
	CHECK_IS(0, cuMemAddressFree(other, PAGE));
}

static void *os(int fd)
{
	return (void *)(intptr_t)fd;
}

/* Export and import, and how the refusals of driver and worker reach the program. */
static void shares(void)
{
	static const struct {
		int error;
		CUresult result;
	} refusals[] = {
		{ ENOSPC, CUDA_ERROR_OUT_OF_MEMORY },	   { ENOTTY, CUDA_ERROR_NOT_SUPPORTED },
		{ ENOENT, CUDA_ERROR_INVALID_VALUE },	   { EMFILE, CUDA_ERROR_OPERATING_SYSTEM },
		{ ENODEV, CUDA_ERROR_DEVICE_UNAVAILABLE },
	};
	CUmemGenericAllocationHandle handle, same, plain;
	CUmemAllocationProp told = { 0 };
	int fd = -1, null = open("/dev/null", O_RDWR);

	CHECK_IS(0, cuMemCreate(&plain, PAGE, &prop, 0));
	prop.requestedHandleTypes = POSIX_FILE;
	prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL; /* tiles are a process's own */
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, PAGE, &prop, 0));
	prop.allocFlags.usage = 0;
	CHECK_IS(0, cuMemCreate(&handle, PAGE, &prop, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, plain, POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemExportToShareableHandle(&fd, handle + 7, POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemExportToShareableHandle(&fd, handle, POSIX_FILE, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, handle, 0, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemExportToShareableHandle(NULL, handle, POSIX_FILE, 0));
	for (int type = 2 * POSIX_FILE; type <= FABRIC; type *= 2)
		CHECK_IS(CUDA_ERROR_INVALID_VALUE,
			 cuMemExportToShareableHandle(&fd, handle, type, 0));
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		fake.export_error = refusals[i].error;
		CHECK_IS(refusals[i].result,
			 cuMemExportToShareableHandle(&fd, handle, POSIX_FILE, 0));
	}
	fake.export_error = 0;
	fake.lie_handle = true;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuMemExportToShareableHandle(&fd, handle, POSIX_FILE, 0));
	fake.lie_handle = false;
	CHECK_IS(-1, fd);
	CHECK_IS(0, cuMemExportToShareableHandle(&fd, handle, POSIX_FILE, 0));

	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemImportFromShareableHandle(NULL, os(fd), POSIX_FILE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemImportFromShareableHandle(&same, os(-1), POSIX_FILE));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemImportFromShareableHandle(&same, os(null), POSIX_FILE));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemImportFromShareableHandle(&same, os(fd), FABRIC));
	fake.lie_handle = true;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&same, os(fd), POSIX_FILE));
	fake.lie_handle = false;
	fake.import_device = 3;
	CHECK_IS(0, cuMemImportFromShareableHandle(&same, os(fd),
						   POSIX_FILE)); /* of a hidden device */
	CHECK_IS(0, cuMemGetAllocationPropertiesFromHandle(&told, same));
	CHECK_IS(0, told.location.id);
	CHECK_IS(0, cuMemRelease(same));
	fake.import_device = 0;
	CHECK_IS(0, cuMemImportFromShareableHandle(&same, os(fd), POSIX_FILE));
	close(fd);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemImportFromShareableHandle(&plain, os(fd), POSIX_FILE));
	CHECK_IS(0, cuMemGetAllocationPropertiesFromHandle(&told, same));
	prop.requestedHandleTypes =
		CU_MEM_HANDLE_TYPE_NONE; /* what was imported can't be exported */
	CHECK(!memcmp(&told, &prop, sizeof(prop)));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, same, POSIX_FILE, 0));
	CHECK_IS(0, cuMemRelease(same));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(same));
	CHECK_IS(0, cuMemRelease(handle));
	close(null);
}

static void pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool first, second, now;
	CUdeviceptr p;

	CHECK_IS(0, cuDeviceGetDefaultMemPool(&first, 0));
	CHECK_IS(0, cuMemPoolCreate(&second, &props));
	CHECK_IS(0, cuDeviceSetMemPool(0, second));
	CHECK_IS(0, cuDeviceGetMemPool(&now, 0));
	CHECK(now == second);
	CHECK_IS(0, cuMemAllocAsync(&p, 100, NULL));
	CHECK_IS(0, cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	CHECK(now == second);
	CHECK_IS(0, cuMemFreeAsync(p, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, NULL));
	CHECK_IS(0, cuMemPoolDestroy(second));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(second, 0));
	CHECK_IS(0, cuDeviceGetMemPool(&now, 0));
	CHECK(now == first);
	for (props.handleTypes = 2 * POSIX_FILE; props.handleTypes < FABRIC; props.handleTypes *= 2)
		CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&second, &props));
	props.handleTypes = FABRIC;
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&second, &props));
}

/* A pool and memory of it for another process, which here is this one. */
static void shared_pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = 1,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolPtrExportData data, none = { { 0 } };
	CUmemoryPool pool, plain, imported;
	CUdeviceptr p, q, alone, same;
	int fd = -1, null = open("/dev/null", O_RDWR);

	CHECK_IS(0, cuMemPoolCreate(&pool, &props));
	props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
	CHECK_IS(0, cuMemPoolCreate(&plain, &props));
	CHECK_IS(0, cuMemAllocFromPoolAsync(&p, 1000, pool, NULL));
	CHECK_IS(0, cuMemAllocFromPoolAsync(&q, 1000, plain, NULL));
	CHECK_IS(0, cuMemAlloc_v2(&alone, 1000));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPoolExportToShareableHandle(&fd, plain, POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPoolExportToShareableHandle(&fd, NULL, POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FILE, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, 3, 0));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolExportToShareableHandle(&fd, pool, FABRIC, 0));
	CHECK_IS(-1, fd);
	CHECK_IS(0, cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(NULL, p));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, p + 4));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, q));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, alone));
	CHECK_IS(0, cuMemPoolExportPointer(&data, p));

	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPoolImportFromShareableHandle(&imported, os(null), POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPoolImportFromShareableHandle(&imported, os(fd), POSIX_FILE, 1));
	fake.import_device = 9; /* a hidden one */
	CHECK_IS(0, cuMemPoolImportFromShareableHandle(&imported, os(fd), POSIX_FILE, 0));
	CHECK_IS(0, cuMemPoolDestroy(imported));
	fake.import_device = 0;
	CHECK_IS(0, cuMemPoolImportFromShareableHandle(&imported, os(fd), POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&same, 100, imported, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, imported));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemPoolExportToShareableHandle(&null, imported, POSIX_FILE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&same, pool, &data));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&same, imported, &none));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(NULL, imported, &data));
	CHECK_IS(0, cuMemPoolImportPointer(&same, imported, &data));
	CHECK_IS(0, cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, same));
	CHECK(pool == imported);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, same));
	CHECK_IS(0, cuMemFreeAsync(same, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(same));
	CHECK_IS(0, cuMemPoolDestroy(imported));
	CHECK_IS(0, cuMemFree_v2(alone));
	close(fd);
	close(null);
}

int main(void)
{
	CUcontext context;

	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	pools();
	shares();
	shared_pools();
	if (!SANITIZED_THREADS)
		mappings();
	return 0;
}
