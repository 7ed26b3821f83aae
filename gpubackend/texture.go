// SPDX-License-Identifier: Apache-2.0

package gpubackend

// Texturing has what a driver offers for arrays, textures and surfaces, besides the functions that
// are described. The structures are those of the API, with the driver's own handles in them.
type Texturing interface {
	// TexObjectCreate makes a texture of CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC and, unless it is
	// empty, CUDA_RESOURCE_VIEW_DESC.
	TexObjectCreate(resource, texture, view []byte) (uint64, Result)
	// SurfObjectCreate makes a surface of a CUDA_RESOURCE_DESC.
	SurfObjectCreate(resource []byte) (uint64, Result)
	// TexRefGetArray returns the array that a texture reference reads, SurfRefGetArray that of a
	// surface reference, and TexRefGetMipmappedArray the mipmapped one. The array may have been
	// destroyed.
	TexRefGetArray(r TextureReference) (Array, Result)
	TexRefGetMipmappedArray(r TextureReference) (MipmappedArray, Result)
	SurfRefGetArray(r SurfaceReference) (Array, Result)
	// CopyArray queues a copy of a CUDA_MEMCPY3D whose sides are arrays or device memory.
	CopyArray(memcpy3D []byte, s Stream) Result
}

// TexObjectCreate returns NotSupported.
func (Unsupported) TexObjectCreate(_, _, _ []byte) (uint64, Result) { return 0, NotSupported }

// SurfObjectCreate returns NotSupported.
func (Unsupported) SurfObjectCreate([]byte) (uint64, Result) { return 0, NotSupported }

// CopyArray returns NotSupported.
func (Unsupported) CopyArray([]byte, Stream) Result { return NotSupported }

// TexRefGetArray returns NotSupported.
func (Unsupported) TexRefGetArray(TextureReference) (Array, Result) { return 0, NotSupported }

// TexRefGetMipmappedArray returns NotSupported.
func (Unsupported) TexRefGetMipmappedArray(TextureReference) (MipmappedArray, Result) {
	return 0, NotSupported
}

// SurfRefGetArray returns NotSupported.
func (Unsupported) SurfRefGetArray(SurfaceReference) (Array, Result) { return 0, NotSupported }
