// SPDX-License-Identifier: Apache-2.0

package chip

import "github.com/paracuda/paracuda/gpubackend/soft/simt"

// Bounds on the sizes of grids and blocks.
const (
	MaxGridX   = simt.MaxGridX
	MaxGridYZ  = simt.MaxGridYZ
	MaxBlockXY = simt.MaxBlockXY
	MaxBlockZ  = simt.MaxBlockZ
)

// LastCacheConfig is the last CUfunc_cache.
const LastCacheConfig = 3

// Bounds on the sizes of arrays and textures, in texels and layers, and how the memory of textures
// is aligned.
const (
	MaxImageWidth   = 131072
	MaxImageHeight  = 65536
	MaxVolume       = 16384
	MaxLayeredWidth = 32768
	MaxLayers       = 2048
	MaxCubeLayers   = 2046
	MaxLinearTexels = 1 << 28
	MaxPitchWidth   = 131072
	MaxPitchHeight  = 65000
	MaxPitch        = 2097120

	TextureAlignment      = 512 // of the memory of a texture
	TexturePitchAlignment = 32  // of the rows of one
)
