/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface of the CUDA driver API as far as this library uses it: sizes, offsets and
 * numbers of the types that programs pass in and out (x86-64 and arm64, LP64, little-endian).
 */
#ifndef PARACUDA_CUDA_ABI_H
#define PARACUDA_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;

typedef struct context *CUcontext;
typedef struct cu_green_context *CUgreenCtx;
typedef struct cu_module *CUmodule;
typedef struct cu_function *CUfunction;
typedef struct cu_library *CUlibrary;
typedef struct cu_kernel *CUkernel;
typedef struct cu_stream *CUstream;
typedef struct cu_event *CUevent;
typedef struct cu_graph *CUgraph;
typedef struct cu_graph_node *CUgraphNode;

typedef int CUdevice_attribute;
typedef int CUdevice_P2PAttribute;
typedef int CUfunction_attribute;
typedef int CUpointer_attribute;
typedef int CUjit_option;
typedef int CUlibraryOption;
typedef int CUlimit;
typedef int CUfunc_cache;
typedef int CUstreamCaptureMode;
typedef int CUstreamCaptureStatus;
typedef int CUfunctionLoadingState;
typedef int CUmoduleLoadingMode;
typedef int CUdriverProcAddressQueryResult;
typedef int CUtensorMapDataType;
typedef int CUtensorMapInterleave;
typedef int CUtensorMapSwizzle;
typedef int CUtensorMapL2promotion;
typedef int CUtensorMapFloatOOBfill;
typedef int CUtensorMapIm2ColWideMode;

typedef struct {
	uint8_t bytes[16];
} CUuuid;

typedef struct {
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int sharedMemPerBlock;
	int totalConstantMemory;
	int SIMDWidth;
	int memPitch;
	int regsPerBlock;
	int clockRate;
	int textureAlign;
} CUdevprop;
_Static_assert(sizeof(CUdevprop) == 56, "CUdevprop");

typedef struct {
	void *execAffinityParams;
	int numExecAffinityParams;
	void *cigParams;
} CUctxCreateParams;
_Static_assert(sizeof(CUctxCreateParams) == 24, "CUctxCreateParams");

typedef struct {
	int type;
	int smCount;
} CUexecAffinityParam;
_Static_assert(sizeof(CUexecAffinityParam) == 8, "CUexecAffinityParam");

typedef struct {
	uint8_t bytes[8];
} CUgraphEdgeData;

typedef struct {
	uint32_t id;
	uint32_t pad;
	uint8_t value[64];
} CUlaunchAttribute;
_Static_assert(sizeof(CUlaunchAttribute) == 72, "CUlaunchAttribute");
_Static_assert(offsetof(CUlaunchAttribute, value) == 8, "CUlaunchAttribute.value");

typedef struct {
	uint32_t gridDimX, gridDimY, gridDimZ;
	uint32_t blockDimX, blockDimY, blockDimZ;
	uint32_t sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	uint32_t numAttrs;
} CUlaunchConfig;
_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig");
_Static_assert(offsetof(CUlaunchConfig, hStream) == 32, "CUlaunchConfig.hStream");
_Static_assert(offsetof(CUlaunchConfig, numAttrs) == 48, "CUlaunchConfig.numAttrs");

typedef struct {
	size_t srcXInBytes, srcY;
	uint32_t srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	void *srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	uint32_t dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	void *dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "CUDA_MEMCPY2D");
_Static_assert(offsetof(CUDA_MEMCPY2D, dstHost) == 80, "CUDA_MEMCPY2D.dstHost");

typedef struct {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	uint32_t srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	void *srcArray;
	void *reserved0;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	uint32_t dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	void *dstArray;
	void *reserved1;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
_Static_assert(sizeof(CUDA_MEMCPY3D) == 200, "CUDA_MEMCPY3D");
_Static_assert(offsetof(CUDA_MEMCPY3D, dstHost) == 128, "CUDA_MEMCPY3D.dstHost");
_Static_assert(offsetof(CUDA_MEMCPY3D, dstHeight) == 168, "CUDA_MEMCPY3D.dstHeight");

typedef struct {
	uint64_t opaque[16];
} CUtensorMap;
_Static_assert(sizeof(CUtensorMap) == 128, "CUtensorMap");

typedef size_t (*CUoccupancyB2DSize)(int blockSize);
typedef void (*CUhostFn)(void *userData);
typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224,
	CUDA_ERROR_FILE_NOT_FOUND = 301,
	CUDA_ERROR_OPERATING_SYSTEM = 304,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_STATE = 401,
	CUDA_ERROR_LOSSY_QUERY = 402,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
	CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
	CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
	CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
	CUDA_ERROR_UNKNOWN = 999,
};

/* Device attributes that this library reads. */
enum {
	ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
	ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
	ATTRIBUTE_MAX_GRID_DIM_X = 5,
	ATTRIBUTE_SHARED_MEMORY_PER_BLOCK = 8,
	ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
	ATTRIBUTE_WARP_SIZE = 10,
	ATTRIBUTE_MAX_PITCH = 11,
	ATTRIBUTE_REGISTERS_PER_BLOCK = 12,
	ATTRIBUTE_CLOCK_RATE = 13,
	ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
	ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	ATTRIBUTE_PCI_BUS_ID = 33,
	ATTRIBUTE_PCI_DEVICE_ID = 34,
	ATTRIBUTE_PCI_DOMAIN_ID = 50,
	ATTRIBUTE_COMPUTE_MAJOR = 75,
	ATTRIBUTE_COMPUTE_MINOR = 76,
	ATTRIBUTE_MANAGED_MEMORY = 83,
	ATTRIBUTE_COMPRESSION = 107,
	ATTRIBUTE_LAST = 143,
};

/* Function attributes. */
enum {
	FUNCTION_MAX_THREADS_PER_BLOCK = 0,
	FUNCTION_SHARED_SIZE_BYTES = 1,
	FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
	FUNCTION_CLUSTER_SIZE_MUST_BE_SET = 10,
	FUNCTION_REQUIRED_CLUSTER_WIDTH = 11,	/* height and depth follow */
	FUNCTION_ATTRIBUTES = 16,
};

/* Default streams. */
#define STREAM_LEGACY 1u
#define STREAM_PER_THREAD 2u

/* Memory types of the copy descriptors and of cuPointerGetAttribute. */
enum {
	MEMORYTYPE_HOST = 1,
	MEMORYTYPE_DEVICE = 2,
	MEMORYTYPE_ARRAY = 3,
	MEMORYTYPE_UNIFIED = 4,
};

#include "abi/graph_abi.h"

#include "abi/cuda_abi_array.h"
#include "abi/cuda_abi_memory.h"
#include "abi/cuda_abi_more.h"

#endif
