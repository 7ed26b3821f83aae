/* SPDX-License-Identifier: Apache-2.0 */
/* The types that are rarely used. */
#ifndef PARACUDA_CUDA_ABI_MORE_H
#define PARACUDA_CUDA_ABI_MORE_H

typedef struct cu_resource_desc *CUdevResourceDesc;
typedef int CUdevResourceType;
typedef int CUstreamAttrID;
typedef int CUsharedconfig;
typedef int CUexecAffinityType;
typedef int CUmem_advise;
typedef int CUmem_range_attribute;
typedef int CUprocessState;

typedef CUlaunchAttributeValue CUstreamAttrValue;

typedef int CUatomicOperation;
typedef int CUflushGPUDirectRDMAWritesTarget;
typedef int CUflushGPUDirectRDMAWritesScope;

typedef unsigned int CUlogIterator;
typedef struct callback *CUlogsCallbackHandle;
typedef void (*CUlogsCallback)(void *data, int logLevel, char *message, size_t length);

#endif
