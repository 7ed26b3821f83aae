/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of what is rarely used. */
#ifndef PARACUDA_CUDA_ABI_MORE_H
#define PARACUDA_CUDA_ABI_MORE_H

typedef struct cu_resource_desc *CUdevResourceDesc;
typedef int CUdevResourceType;
typedef int CUstreamAttrID;
typedef int CUsharedconfig;
typedef int CUexecAffinityType;
typedef int CUmem_advise;
typedef int CUmem_range_attribute;

typedef struct {
	uint64_t value[8];
} CUstreamAttrValue;
_Static_assert(sizeof(CUstreamAttrValue) == 64, "CUstreamAttrValue");

typedef int CUatomicOperation;
typedef int CUflushGPUDirectRDMAWritesTarget;
typedef int CUflushGPUDirectRDMAWritesScope;

typedef unsigned int CUlogIterator;
typedef struct callback *CUlogsCallbackHandle;
typedef void (*CUlogsCallback)(void *data, int logLevel, char *message, size_t length);

typedef struct {
	size_t width, height, depth;
} CUextent3D;

/* A side of a copy. Sizes and positions count elements. */
typedef struct {
	int type;
	union {
		struct {
			CUdeviceptr ptr;
			size_t rowLength, layerHeight;
			CUmemLocation locHint;
		} ptr;
		struct {
			CUarray array;
			struct {
				size_t x, y, z;
			} offset;
		} array;
	} op;
} CUmemcpy3DOperand;
_Static_assert(sizeof(CUmemcpy3DOperand) == 40, "CUmemcpy3DOperand");

enum { OPERAND_POINTER = 1, OPERAND_ARRAY = 2 };

typedef struct {
	CUmemcpy3DOperand src, dst;
	CUextent3D extent;
	int srcAccessOrder;
	unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP;
_Static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112, "CUDA_MEMCPY3D_BATCH_OP");

/* What CUDA documents of it is the type and, from byte 96 on, the multiprocessors. `magic` and `number` are this library's. */
typedef struct {
	CUdevResourceType type;
	uint32_t magic;
	uint64_t number;	/* the worker's handle */
	uint8_t internal[80];
	uint32_t count, min_partition, alignment;
	uint8_t oversize[36];
} CUdevResource;
_Static_assert(sizeof(CUdevResource) == 144, "CUdevResource");
_Static_assert(offsetof(CUdevResource, count) == 96, "CUdevResource.sm");

#define RESOURCE_SM 1

/* As CUDA_MEMCPY3D, with contexts in place of what is reserved there. */
typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER;

typedef struct {
	int srcAccessOrder;
	CUmemLocation srcLocHint, dstLocHint;
	unsigned int flags;
} CUmemcpyAttributes;
_Static_assert(sizeof(CUmemcpyAttributes) == 24, "CUmemcpyAttributes");

#endif
