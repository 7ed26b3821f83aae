// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// lastAttribute is the last CUdevice_attribute of CUDA 13.0. Others are answered with InvalidValue.
const lastAttribute = cudaabi.LastDeviceAttribute

// deviceAttributes are the CUdevice_attribute values that are not 0 and don't depend on Options, by
// number. What is 0 is not there: pageable memory, peers, handles of fabrics, clusters, tensor
// maps, stream memory operations.
var deviceAttributes = map[int]int32{
	cudaabi.DeviceAttributeMaxThreadsPerBlock:      MaxThreadsPerBlock,
	cudaabi.DeviceAttributeMaxBlockDimX:            MaxBlockXY,
	cudaabi.DeviceAttributeMaxBlockDimY:            MaxBlockXY,
	cudaabi.DeviceAttributeMaxBlockDimZ:            MaxBlockZ,
	cudaabi.DeviceAttributeMaxGridDimX:             MaxGridX,
	cudaabi.DeviceAttributeMaxGridDimY:             MaxGridYZ,
	cudaabi.DeviceAttributeMaxGridDimZ:             MaxGridYZ,
	cudaabi.DeviceAttributeMaxSharedMemoryPerBlock: SharedPerBlock,
	cudaabi.DeviceAttributeTotalConstantMemory:     64 << 10,
	cudaabi.DeviceAttributeWarpSize:                warpSize,
	cudaabi.DeviceAttributeMaxPitch:                1<<31 - 1,
	cudaabi.DeviceAttributeMaxRegistersPerBlock:    registersPerMultiproc,
	cudaabi.DeviceAttributeClockRate:               1000000, // kHz
	cudaabi.DeviceAttributeTextureAlignment:        TextureAlignment,
	// cuMemAllocPitch rounds pitches to it
	cudaabi.DeviceAttributeGPUOverlap:                             1,
	cudaabi.DeviceAttributeCanMapHostMemory:                       1,
	cudaabi.DeviceAttributeMaximumTexture1DWidth:                  MaxImageWidth,
	cudaabi.DeviceAttributeMaximumTexture2DWidth:                  MaxImageWidth,
	cudaabi.DeviceAttributeMaximumTexture2DHeight:                 MaxImageHeight,
	cudaabi.DeviceAttributeMaximumTexture3DWidth:                  MaxVolume,
	cudaabi.DeviceAttributeMaximumTexture3DHeight:                 MaxVolume,
	cudaabi.DeviceAttributeMaximumTexture3DDepth:                  MaxVolume,
	cudaabi.DeviceAttributeMaximumTexture2DLayeredWidth:           MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumTexture2DLayeredHeight:          MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumTexture2DLayeredLayers:          MaxLayers,
	cudaabi.DeviceAttributeSurfaceAlignment:                       512,
	cudaabi.DeviceAttributeConcurrentKernels:                      1,
	cudaabi.DeviceAttributeMemoryClockRate:                        1000000, // kHz
	cudaabi.DeviceAttributeGlobalMemoryBusWidth:                   128,
	cudaabi.DeviceAttributeL2CacheSize:                            4 << 20,
	cudaabi.DeviceAttributeMaxThreadsPerMultiprocessor:            threadsPerMultiproc,
	cudaabi.DeviceAttributeAsyncEngineCount:                       2,
	cudaabi.DeviceAttributeUnifiedAddressing:                      1,
	cudaabi.DeviceAttributeMaximumTexture1DLayeredWidth:           MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumTexture1DLayeredLayers:          MaxLayers,
	cudaabi.DeviceAttributeCanTex2DGather:                         1,
	cudaabi.DeviceAttributeMaximumTexture2DGatherWidth:            MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumTexture2DGatherHeight:           MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumTexture3DWidthAlternate:         MaxVolume,
	cudaabi.DeviceAttributeMaximumTexture3DHeightAlternate:        MaxVolume,
	cudaabi.DeviceAttributeMaximumTexture3DDepthAlternate:         MaxVolume,
	cudaabi.DeviceAttributeTexturePitchAlignment:                  TexturePitchAlignment,
	cudaabi.DeviceAttributeMaximumTexturecubemapWidth:             MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumTexturecubemapLayeredWidth:      MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumTexturecubemapLayeredLayers:     MaxCubeLayers,
	cudaabi.DeviceAttributeMaximumSurface1DWidth:                  MaxImageWidth,
	cudaabi.DeviceAttributeMaximumSurface2DWidth:                  MaxImageWidth,
	cudaabi.DeviceAttributeMaximumSurface2DHeight:                 MaxImageHeight,
	cudaabi.DeviceAttributeMaximumSurface3DWidth:                  MaxVolume,
	cudaabi.DeviceAttributeMaximumSurface3DHeight:                 MaxVolume,
	cudaabi.DeviceAttributeMaximumSurface3DDepth:                  MaxVolume,
	cudaabi.DeviceAttributeMaximumSurface1DLayeredWidth:           MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumSurface1DLayeredLayers:          MaxLayers,
	cudaabi.DeviceAttributeMaximumSurface2DLayeredWidth:           MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumSurface2DLayeredHeight:          MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumSurface2DLayeredLayers:          MaxLayers,
	cudaabi.DeviceAttributeMaximumSurfacecubemapWidth:             MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumSurfacecubemapLayeredWidth:      MaxLayeredWidth,
	cudaabi.DeviceAttributeMaximumSurfacecubemapLayeredLayers:     MaxCubeLayers,
	cudaabi.DeviceAttributeMaximumTexture1DLinearWidth:            MaxLinearTexels,
	cudaabi.DeviceAttributeMaximumTexture2DLinearWidth:            MaxPitchWidth,
	cudaabi.DeviceAttributeMaximumTexture2DLinearHeight:           MaxPitchHeight,
	cudaabi.DeviceAttributeMaximumTexture2DLinearPitch:            MaxPitch,
	cudaabi.DeviceAttributeMaximumTexture2DMipmappedWidth:         MaxImageWidth,
	cudaabi.DeviceAttributeMaximumTexture2DMipmappedHeight:        MaxImageHeight,
	cudaabi.DeviceAttributeComputeCapabilityMajor:                 Architecture / 10,
	cudaabi.DeviceAttributeComputeCapabilityMinor:                 Architecture % 10,
	cudaabi.DeviceAttributeMaximumTexture1DMipmappedWidth:         MaxImageWidth,
	cudaabi.DeviceAttributeStreamPrioritiesSupported:              1,
	cudaabi.DeviceAttributeGlobalL1CacheSupported:                 1,
	cudaabi.DeviceAttributeLocalL1CacheSupported:                  1,
	cudaabi.DeviceAttributeMaxSharedMemoryPerMultiprocessor:       sharedPerMultiproc,
	cudaabi.DeviceAttributeMaxRegistersPerMultiprocessor:          registersPerMultiproc,
	cudaabi.DeviceAttributeManagedMemory:                          1,
	cudaabi.DeviceAttributeSingleToDoublePrecisionPerfRatio:       2,
	cudaabi.DeviceAttributeConcurrentManagedAccess:                1,
	cudaabi.DeviceAttributeComputePreemptionSupported:             1,
	cudaabi.DeviceAttributeCanUseHostPointerForRegisteredMem:      1,
	cudaabi.DeviceAttributeCooperativeLaunch:                      1,
	cudaabi.DeviceAttributeMaxSharedMemoryPerBlockOptin:           SharedPerBlockOptIn,
	cudaabi.DeviceAttributeHostRegisterSupported:                  1,
	cudaabi.DeviceAttributeCanUse64BitStreamMemOps:                1,
	cudaabi.DeviceAttributeCanUseStreamWaitValueNor:               1,
	cudaabi.DeviceAttributeVirtualMemoryManagementSupported:       1,
	cudaabi.DeviceAttributeHandleTypePosixFileDescriptorSupported: 1,
	cudaabi.DeviceAttributeMaxBlocksPerMultiprocessor:             blocksPerMultiproc,
	cudaabi.DeviceAttributeReservedSharedMemoryPerBlock:           sharedReserved,
	cudaabi.DeviceAttributeReadOnlyHostRegisterSupported:          1,
	cudaabi.DeviceAttributeMemoryPoolsSupported:                   1,
	cudaabi.DeviceAttributeMempoolSupportedHandleTypes:            1,
	// MEMPOOL_SUPPORTED_HANDLE_TYPES: POSIX file descriptors
	cudaabi.DeviceAttributeIPCEventSupported:       1,
	cudaabi.DeviceAttributeMemSyncDomainCount:      1,
	cudaabi.DeviceAttributeUnifiedFunctionPointers: 1,
	cudaabi.DeviceAttributeNUMAID:                  -1,
	cudaabi.DeviceAttributeHostNUMAID:              -1,
}

// fillAttributes writes the device's attributes to an inventory.
func (d *Identity) fillAttributes(s *wire.InventoryDevice) {
	for i := range s.Attribute {
		s.Attribute[i] = deviceAttributes[i]
		if i == 0 || i > lastAttribute {
			s.AttributeResult[i] = 1 // CUDA_ERROR_INVALID_VALUE
		}
	}
	s.Attribute[cudaabi.DeviceAttributePCIBusID] = d.Bus
	s.Attribute[cudaabi.DeviceAttributeMultiprocessorCount] = int32(d.Multiprocessors)
}
