/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of memory pools, virtual memory management and interprocess handles. */
#ifndef PARACUDA_CUDA_ABI_MEMORY_H
#define PARACUDA_CUDA_ABI_MEMORY_H

typedef struct cu_memory_pool *CUmemoryPool;
typedef uint64_t CUmemGenericAllocationHandle;

typedef int CUmemPool_attribute;
typedef int CUmemAllocationType;
typedef int CUmemAllocationHandleType;
typedef int CUmemAllocationGranularity_flags;
typedef int CUmemAccess_flags;

typedef struct {
	int type;
	int id;
} CUmemLocation;
_Static_assert(sizeof(CUmemLocation) == 8, "CUmemLocation");

typedef struct {
	int type;
	int requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	uint8_t compressionType, gpuDirectRDMACapable;
	uint16_t usage;
	uint8_t reserved[4];
} CUmemAllocationProp;
_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp");

typedef struct {
	CUmemLocation location;
	int flags;
} CUmemAccessDesc;
_Static_assert(sizeof(CUmemAccessDesc) == 12, "CUmemAccessDesc");

typedef struct {
	int allocType;
	int handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	uint16_t usage;
	uint8_t reserved[54];
} CUmemPoolProps;
_Static_assert(sizeof(CUmemPoolProps) == 88, "CUmemPoolProps");

typedef struct {
	uint64_t opaque[8];
} CUipcMemHandle;
_Static_assert(sizeof(CUipcMemHandle) == 64, "CUipcMemHandle");

typedef struct {
	uint64_t opaque[8];
} CUipcEventHandle;
_Static_assert(sizeof(CUipcEventHandle) == 64, "CUipcEventHandle");

typedef struct {
	uint64_t opaque[8];
} CUmemPoolPtrExportData;
_Static_assert(sizeof(CUmemPoolPtrExportData) == 64, "CUmemPoolPtrExportData");

enum {
	ALLOCATION_PINNED = 1,
	LOCATION_NONE = 0,
	LOCATION_DEVICE = 1,
	LOCATION_HOST = 2,
	LOCATION_HOST_NUMA = 3,
	LOCATION_HOST_NUMA_CURRENT = 4,
	LOCATION_LAST = 4,
	COMPRESSION_GENERIC = 1,
	USAGE_TILE_POOL = 1,
	ACCESS_NONE = 0,
	ACCESS_READ = 1,
	ACCESS_READ_WRITE = 3,
};

/* Of managed memory. */
enum {
	ATTACH_GLOBAL = 1,
	ATTACH_HOST = 2,
	ATTACH_SINGLE = 4,

	ADVISE_SET_READ_MOSTLY = 1,
	ADVISE_UNSET_READ_MOSTLY,
	ADVISE_SET_PREFERRED_LOCATION,
	ADVISE_UNSET_PREFERRED_LOCATION,
	ADVISE_SET_ACCESSED_BY,
	ADVISE_UNSET_ACCESSED_BY,

	RANGE_READ_MOSTLY = 1,
	RANGE_PREFERRED_LOCATION,
	RANGE_ACCESSED_BY,
	RANGE_LAST_PREFETCH_LOCATION,
	RANGE_PREFERRED_LOCATION_TYPE,
	RANGE_PREFERRED_LOCATION_ID,
	RANGE_LAST_PREFETCH_LOCATION_TYPE,
	RANGE_LAST_PREFETCH_LOCATION_ID,

	DEVICE_CPU = -1,
	DEVICE_INVALID = -2,
};

#endif
