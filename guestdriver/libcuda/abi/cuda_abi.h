/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of the CUDA driver API as far as this library uses it: handles and enumerations. Its
 * structures and numbers are generated from their description (x86-64 and arm64, LP64,
 * little-endian).
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
typedef struct cu_array *CUarray;
typedef struct cu_mipmapped_array *CUmipmappedArray;

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

typedef size_t (*CUoccupancyB2DSize)(int blockSize);
typedef void (*CUhostFn)(void *userData);
typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);

#include "zz_generated_cuda_layout.h"

#include "abi/graph_abi.h"
#include "abi/cuda_abi_array.h"
#include "abi/cuda_abi_memory.h"
#include "abi/cuda_abi_more.h"

#endif
