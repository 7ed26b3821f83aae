/* SPDX-License-Identifier: Apache-2.0 */
/* The types of arrays, textures, surfaces and links. */
#ifndef PARACUDA_CUDA_ABI_ARRAY_H
#define PARACUDA_CUDA_ABI_ARRAY_H

typedef struct cu_link *CUlinkState;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef int CUjitInputType;
typedef int CUarray_format;
typedef int CUaddress_mode;
typedef int CUfilter_mode;
typedef struct cu_texture_reference *CUtexref;
typedef struct cu_surface_reference *CUsurfref;

#endif
