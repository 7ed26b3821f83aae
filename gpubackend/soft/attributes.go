// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend/wire"

// lastAttribute is the last CUdevice_attribute of CUDA 13.0. Others are answered with InvalidValue.
const lastAttribute = 143

// deviceAttributes are the CUdevice_attribute values that are not 0 and don't depend on Options, by number. What is
// 0 is not there: textures, surfaces, pageable memory, peers,
// shareable handles, clusters, tensor maps, stream memory operations.
var deviceAttributes = map[int]int32{
	1:   maxThreadsPerBlock,
	2:   maxBlockXY,
	3:   maxBlockXY,
	4:   maxBlockZ,
	5:   maxGridX,
	6:   maxGridYZ,
	7:   maxGridYZ,
	8:   sharedPerBlock,
	9:   64 << 10, // TOTAL_CONSTANT_MEMORY
	10:  warpSize,
	11:  1<<31 - 1, // MAX_PITCH
	12:  registersPerMultiproc,
	13:  1000000, // CLOCK_RATE, kHz
	14:  512,     // TEXTURE_ALIGNMENT: cuMemAllocPitch rounds pitches to it
	15:  1,       // GPU_OVERLAP
	19:  1,       // CAN_MAP_HOST_MEMORY
	30:  512,     // SURFACE_ALIGNMENT
	31:  1,       // CONCURRENT_KERNELS
	33:  1,       // PCI_BUS_ID
	36:  1000000, // MEMORY_CLOCK_RATE, kHz
	37:  128,     // GLOBAL_MEMORY_BUS_WIDTH
	38:  4 << 20, // L2_CACHE_SIZE
	39:  threadsPerMultiproc,
	40:  2,  // ASYNC_ENGINE_COUNT
	41:  1,  // UNIFIED_ADDRESSING
	51:  32, // TEXTURE_PITCH_ALIGNMENT
	75:  architecture / 10,
	76:  architecture % 10,
	78:  1, // STREAM_PRIORITIES_SUPPORTED
	79:  1, // GLOBAL_L1_CACHE_SUPPORTED
	80:  1, // LOCAL_L1_CACHE_SUPPORTED
	81:  sharedPerMultiproc,
	82:  registersPerMultiproc,
	83:  1, // MANAGED_MEMORY
	87:  2, // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
	89:  1, // CONCURRENT_MANAGED_ACCESS
	90:  1, // COMPUTE_PREEMPTION_SUPPORTED
	91:  1, // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
	95:  1, // COOPERATIVE_LAUNCH
	97:  sharedPerBlockOptIn,
	99:  1, // HOST_REGISTER_SUPPORTED
	102: 1, // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
	106: blocksPerMultiproc,
	111: sharedReserved,
	113: 1,  // READ_ONLY_HOST_REGISTER_SUPPORTED
	115: 1,  // MEMORY_POOLS_SUPPORTED
	125: 1,  // IPC_EVENT_SUPPORTED
	126: 1,  // MEM_SYNC_DOMAIN_COUNT
	129: 1,  // UNIFIED_FUNCTION_POINTERS
	131: -1, // NUMA_ID
	134: -1, // HOST_NUMA_ID
}

const attributeMultiprocessors = 16

// fillAttributes writes the device's attributes to a snapshot.
func (d *Device) fillAttributes(s *wire.SnapshotDevice) {
	for i := range s.Attribute {
		s.Attribute[i] = deviceAttributes[i]
		if i == 0 || i > lastAttribute {
			s.AttributeResult[i] = 1 // CUDA_ERROR_INVALID_VALUE
		}
	}
	s.Attribute[attributeMultiprocessors] = int32(d.options.Multiprocessors)
}
