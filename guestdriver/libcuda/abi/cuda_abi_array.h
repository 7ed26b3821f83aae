/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of arrays, textures, surfaces and links. */
#ifndef PARACUDA_CUDA_ABI_ARRAY_H
#define PARACUDA_CUDA_ABI_ARRAY_H

typedef struct cu_array *CUarray;
typedef struct cu_mipmapped_array *CUmipmappedArray;
typedef struct cu_link *CUlinkState;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef int CUjitInputType;
typedef int CUarray_format;
typedef int CUaddress_mode;
typedef int CUfilter_mode;
typedef struct cu_texture_reference *CUtexref;
typedef struct cu_surface_reference *CUsurfref;

typedef struct {
	size_t Width, Height;
	int Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;
_Static_assert(sizeof(CUDA_ARRAY_DESCRIPTOR) == 24, "CUDA_ARRAY_DESCRIPTOR");

typedef struct {
	size_t Width, Height, Depth;
	int Format;
	unsigned int NumChannels;
	unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR;
_Static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR) == 40, "CUDA_ARRAY3D_DESCRIPTOR");

typedef struct {
	uint64_t opaque[4];
} CUDA_ARRAY_MEMORY_REQUIREMENTS;

typedef struct {
	uint64_t opaque[6];
} CUDA_ARRAY_SPARSE_PROPERTIES;

typedef struct {
	uint64_t opaque[18];
} CUDA_RESOURCE_DESC;

typedef struct {
	uint64_t opaque[13];
} CUDA_TEXTURE_DESC;

typedef struct {
	uint64_t opaque[14];
} CUDA_RESOURCE_VIEW_DESC;
_Static_assert(sizeof(CUDA_RESOURCE_DESC) == 144 && sizeof(CUDA_TEXTURE_DESC) == 104 &&
	       sizeof(CUDA_RESOURCE_VIEW_DESC) == 112, "texture descriptions");

#endif
