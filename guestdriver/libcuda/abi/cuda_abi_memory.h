/* SPDX-License-Identifier: Apache-2.0 */
/* The types of memory pools, virtual memory management and interprocess handles. */
#ifndef PARACUDA_CUDA_ABI_MEMORY_H
#define PARACUDA_CUDA_ABI_MEMORY_H

typedef struct cu_memory_pool *CUmemoryPool;
typedef uint64_t CUmemGenericAllocationHandle;

typedef int CUmemPool_attribute;
typedef int CUmemAllocationType;
typedef int CUmemAllocationHandleType;
typedef int CUmemAllocationGranularity_flags;
typedef int CUmemAccess_flags;

#endif
