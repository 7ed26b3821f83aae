/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of what is rarely used. */
#ifndef PARACUDA_CUDA_ABI_MORE_H
#define PARACUDA_CUDA_ABI_MORE_H

typedef struct cu_green_context *CUgreenCtx;
typedef int CUstreamAttrID;
typedef int CUsharedconfig;
typedef int CUexecAffinityType;
typedef int CUmem_advise;
typedef int CUmem_range_attribute;

typedef struct {
	uint64_t value[8];
} CUstreamAttrValue;
_Static_assert(sizeof(CUstreamAttrValue) == 64, "CUstreamAttrValue");

/* As CUDA_MEMCPY3D, with contexts in place of what is reserved there. */
typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER;

typedef struct {
	int srcAccessOrder;
	CUmemLocation srcLocHint, dstLocHint;
	unsigned int flags;
} CUmemcpyAttributes;
_Static_assert(sizeof(CUmemcpyAttributes) == 24, "CUmemcpyAttributes");

#endif
