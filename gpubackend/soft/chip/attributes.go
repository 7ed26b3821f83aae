// SPDX-License-Identifier: Apache-2.0

package chip

import "github.com/paracuda/paracuda/gpubackend/wire"

// lastAttribute is the last CUdevice_attribute of CUDA 13.0. Others are answered with InvalidValue.
const lastAttribute = 143

// deviceAttributes are the CUdevice_attribute values that are not 0 and don't depend on Options, by
// number. What is 0 is not there: pageable memory, peers, handles of fabrics, clusters, tensor
// maps, stream memory operations.
var deviceAttributes = map[int]int32{
	1:   MaxThreadsPerBlock,
	2:   MaxBlockXY,
	3:   MaxBlockXY,
	4:   MaxBlockZ,
	5:   MaxGridX,
	6:   MaxGridYZ,
	7:   MaxGridYZ,
	8:   SharedPerBlock,
	9:   64 << 10, // TOTAL_CONSTANT_MEMORY
	10:  warpSize,
	11:  1<<31 - 1, // MAX_PITCH
	12:  registersPerMultiproc,
	13:  1000000,          // CLOCK_RATE, kHz
	14:  TextureAlignment, // cuMemAllocPitch rounds pitches to it
	15:  1,                // GPU_OVERLAP
	19:  1,                // CAN_MAP_HOST_MEMORY
	21:  MaxImageWidth,    // MAXIMUM_TEXTURE1D_WIDTH
	22:  MaxImageWidth,    // MAXIMUM_TEXTURE2D_WIDTH, _HEIGHT
	23:  MaxImageHeight,
	24:  MaxVolume, // MAXIMUM_TEXTURE3D_WIDTH, _HEIGHT, _DEPTH
	25:  MaxVolume,
	26:  MaxVolume,
	27:  MaxLayeredWidth, // MAXIMUM_TEXTURE2D_LAYERED_WIDTH, _HEIGHT, _LAYERS
	28:  MaxLayeredWidth,
	29:  MaxLayers,
	30:  512,     // SURFACE_ALIGNMENT
	31:  1,       // CONCURRENT_KERNELS
	33:  1,       // PCI_BUS_ID
	36:  1000000, // MEMORY_CLOCK_RATE, kHz
	37:  128,     // GLOBAL_MEMORY_BUS_WIDTH
	38:  4 << 20, // L2_CACHE_SIZE
	39:  threadsPerMultiproc,
	40:  2,               // ASYNC_ENGINE_COUNT
	41:  1,               // UNIFIED_ADDRESSING
	42:  MaxLayeredWidth, // MAXIMUM_TEXTURE1D_LAYERED_WIDTH, _LAYERS
	43:  MaxLayers,
	44:  1,               // CAN_TEX2D_GATHER
	45:  MaxLayeredWidth, // MAXIMUM_TEXTURE2D_GATHER_WIDTH, _HEIGHT
	46:  MaxLayeredWidth,
	47:  MaxVolume, // MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, _HEIGHT_, _DEPTH_
	48:  MaxVolume,
	49:  MaxVolume,
	51:  TexturePitchAlignment,
	52:  MaxLayeredWidth, // MAXIMUM_TEXTURECUBEMAP_WIDTH
	53:  MaxLayeredWidth, // MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, _LAYERS
	54:  MaxCubeLayers,
	55:  MaxImageWidth, // MAXIMUM_SURFACE1D_WIDTH
	56:  MaxImageWidth, // MAXIMUM_SURFACE2D_WIDTH, _HEIGHT
	57:  MaxImageHeight,
	58:  MaxVolume, // MAXIMUM_SURFACE3D_WIDTH, _HEIGHT, _DEPTH
	59:  MaxVolume,
	60:  MaxVolume,
	61:  MaxLayeredWidth, // MAXIMUM_SURFACE1D_LAYERED_WIDTH, _LAYERS
	62:  MaxLayers,
	63:  MaxLayeredWidth, // MAXIMUM_SURFACE2D_LAYERED_WIDTH, _HEIGHT, _LAYERS
	64:  MaxLayeredWidth,
	65:  MaxLayers,
	66:  MaxLayeredWidth, // MAXIMUM_SURFACECUBEMAP_WIDTH
	67:  MaxLayeredWidth, // MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, _LAYERS
	68:  MaxCubeLayers,
	69:  MaxLinearTexels, // MAXIMUM_TEXTURE1D_LINEAR_WIDTH
	70:  MaxPitchWidth,   // MAXIMUM_TEXTURE2D_LINEAR_WIDTH, _HEIGHT, _PITCH
	71:  MaxPitchHeight,
	72:  MaxPitch,
	73:  MaxImageWidth, // MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, _HEIGHT
	74:  MaxImageHeight,
	75:  Architecture / 10,
	76:  Architecture % 10,
	77:  MaxImageWidth, // MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH
	78:  1,             // STREAM_PRIORITIES_SUPPORTED
	79:  1,             // GLOBAL_L1_CACHE_SUPPORTED
	80:  1,             // LOCAL_L1_CACHE_SUPPORTED
	81:  sharedPerMultiproc,
	82:  registersPerMultiproc,
	83:  1, // MANAGED_MEMORY
	87:  2, // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
	89:  1, // CONCURRENT_MANAGED_ACCESS
	90:  1, // COMPUTE_PREEMPTION_SUPPORTED
	91:  1, // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
	95:  1, // COOPERATIVE_LAUNCH
	97:  SharedPerBlockOptIn,
	99:  1, // HOST_REGISTER_SUPPORTED
	102: 1, // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
	103: 1, // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
	106: blocksPerMultiproc,
	111: sharedReserved,
	113: 1,  // READ_ONLY_HOST_REGISTER_SUPPORTED
	115: 1,  // MEMORY_POOLS_SUPPORTED
	119: 1,  // MEMPOOL_SUPPORTED_HANDLE_TYPES: POSIX file descriptors
	125: 1,  // IPC_EVENT_SUPPORTED
	126: 1,  // MEM_SYNC_DOMAIN_COUNT
	129: 1,  // UNIFIED_FUNCTION_POINTERS
	131: -1, // NUMA_ID
	134: -1, // HOST_NUMA_ID
}

const attributeMultiprocessors = 16

// fillAttributes writes the device's attributes to a snapshot.
func (d *Identity) fillAttributes(s *wire.SnapshotDevice) {
	for i := range s.Attribute {
		s.Attribute[i] = deviceAttributes[i]
		if i == 0 || i > lastAttribute {
			s.AttributeResult[i] = 1 // CUDA_ERROR_INVALID_VALUE
		}
	}
	s.Attribute[attributeMultiprocessors] = int32(d.Multiprocessors)
}
