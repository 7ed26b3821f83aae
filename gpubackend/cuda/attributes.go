// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend/wire"

// Device attributes that this package reads (CUdevice_attribute).
const (
	attributeMultiprocessors          = 16
	attributePCIBus                   = 33
	attributePCIDevice                = 34
	attributePCIDomain                = 50
	attributeThreadsOfMultiprocessor  = 39
	attributeHostPointerForRegistered = 91
	attributePageableMemoryAccess     = 88
	attributeReadOnlyHostRegister     = 113
)

// masked are the attributes that a guest sees other than the driver gives them: what it can't have, whatever the
// GPU can. A program that asks finds another way; one that doesn't ask gets NotSupported.
var masked = []struct {
	attribute int
	value     int32
	why       string
}{
	{19, 1, "CAN_MAP_HOST_MEMORY: the guest's pinned pages are mapped in its worker"},
	{83, 1, "MANAGED_MEMORY: pinned pages of the guest's, reached in place"},
	{84, 0, "MULTI_GPU_BOARD: a property of the host"},
	{86, 0, "HOST_NATIVE_ATOMIC_SUPPORTED: not promised over a hot-plugged bus"},
	{attributePageableMemoryAccess, 0, "PAGEABLE_MEMORY_ACCESS: kernels would reach the worker's memory, not the guest's"},
	{89, 1, "CONCURRENT_MANAGED_ACCESS: as MANAGED_MEMORY, which both sides see at any time"},
	{92, 0, "CAN_USE_STREAM_MEM_OPS_V1: stream memory operations are not implemented"},
	{93, 0, "CAN_USE_64_BIT_STREAM_MEM_OPS_V1: as above"},
	{94, 0, "CAN_USE_STREAM_WAIT_VALUE_NOR_V1: as above"},
	{98, 0, "CAN_FLUSH_REMOTE_WRITES: as above"},
	{99, 1, "HOST_REGISTER_SUPPORTED: by MAP chains"},
	{100, 0, "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES: as PAGEABLE_MEMORY_ACCESS"},
	{101, 0, "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST: no managed memory lies on the GPU"},
	{103, 1, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: descriptors of the guest's driver"},
	{104, 0, "HANDLE_TYPE_WIN32_HANDLE_SUPPORTED: a guest is Linux"},
	{105, 0, "HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED: as above"},
	{107, 0, "GENERIC_COMPRESSION_SUPPORTED: not offered"},
	{110, 0, "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED: no peer device can reach the GPU from a guest"},
	{112, 0, "SPARSE_CUDA_ARRAY_SUPPORTED: arrays are not implemented"},
	{114, 0, "TIMELINE_SEMAPHORE_INTEROP_SUPPORTED: no external semaphores"},
	{116, 0, "GPU_DIRECT_RDMA_SUPPORTED: as attribute 110"},
	{117, 0, "GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: as attribute 110"},
	{118, 0, "GPU_DIRECT_RDMA_WRITES_ORDERING: as attribute 110"},
	{119, 1, "MEMPOOL_SUPPORTED_HANDLE_TYPES: descriptors of the guest's driver, no handles of fabrics"},
	{121, 0, "DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED: arrays are not implemented"},
	{122, 0, "CAN_USE_64_BIT_STREAM_MEM_OPS: stream memory operations are not implemented"},
	{123, 0, "CAN_USE_STREAM_WAIT_VALUE_NOR: as above"},
	{124, 0, "DMA_BUF_SUPPORTED: a host descriptor means nothing in a guest"},
	{125, 0, "IPC_EVENT_SUPPORTED: a guest's processes have workers of their own"},
	{128, 0, "HANDLE_TYPE_FABRIC_SUPPORTED: such a handle would reach other machines"},
	{130, 0, "NUMA_CONFIG: of the host"},
	{131, -1, "NUMA_ID: of the host"},
	{132, 0, "MULTICAST_SUPPORTED: multicast objects are not implemented"},
	{133, 0, "MPS_ENABLED: of the host"},
	{134, -1, "HOST_NUMA_ID: of the host"},
	{135, 0, "D3D12_CIG_SUPPORTED: no graphics"},
	{138, 0, "VULKAN_CIG_SUPPORTED: no graphics"},
	{141, 0, "HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: memory of the device only"},
	{142, 0, "HOST_NUMA_MEMORY_POOLS_SUPPORTED: as above"},
	{143, 0, "HOST_NUMA_MULTINODE_IPC_SUPPORTED: as attribute 128"},
}

// mask replaces what a guest must not be told. An attribute that the driver doesn't know stays unknown.
func mask(d *wire.SnapshotDevice) {
	for _, m := range masked {
		if d.AttributeResult[m.attribute] == 0 {
			d.Attribute[m.attribute] = m.value
		}
	}
}
