// SPDX-License-Identifier: Apache-2.0

package main

import (
	"gvisor.dev/gvisor/pkg/abi/nvgpu"
	"gvisor.dev/gvisor/pkg/seccomp"
)

// ioctl is a request to NVIDIA's kernel modules.
type ioctl struct {
	number uint32
	name   string
	why    string
}

// frontIoctls are the requests to /dev/nvidiactl, /dev/nvidia0 and so on. They have NVIDIA's type,
// and a size that differs between drivers.
var frontIoctls = []ioctl{
	{nvgpu.NV_ESC_CARD_INFO, "CARD_INFO", "which GPUs there are"},
	{nvgpu.NV_ESC_REGISTER_FD, "REGISTER_FD", "a descriptor belongs to a client"},
	{nvgpu.NV_ESC_ALLOC_OS_EVENT, "ALLOC_OS_EVENT", "waiting for the GPU"},
	{nvgpu.NV_ESC_FREE_OS_EVENT, "FREE_OS_EVENT", "the end of that"},
	{nvgpu.NV_ESC_CHECK_VERSION_STR, "CHECK_VERSION_STR", "whether library and module fit"},
	{nvgpu.NV_ESC_ATTACH_GPUS_TO_FD, "ATTACH_GPUS_TO_FD", "GPUs stay initialised"},
	{nvgpu.NV_ESC_SYS_PARAMS, "SYS_PARAMS", "the host's memory blocks"},
	{nvgpu.NV_ESC_NUMA_INFO, "NUMA_INFO", "memory nodes of the GPU"},
	{nvgpu.NV_ESC_WAIT_OPEN_COMPLETE, "WAIT_OPEN_COMPLETE", "a GPU that is being opened"},
	{nvgpu.NV_ESC_RM_ALLOC_MEMORY, "RM_ALLOC_MEMORY", "pinned memory of the host"},
	{nvgpu.NV_ESC_RM_FREE, "RM_FREE", "the end of any object"},
	{nvgpu.NV_ESC_RM_CONTROL, "RM_CONTROL", "calls of objects"},
	{nvgpu.NV_ESC_RM_ALLOC, "RM_ALLOC", "contexts, channels, memory"},
	{nvgpu.NV_ESC_RM_DUP_OBJECT, "RM_DUP_OBJECT", "memory of another process or GPU"},
	{nvgpu.NV_ESC_RM_SHARE, "RM_SHARE", "memory for another process"},
	{nvgpu.NV_ESC_RM_IDLE_CHANNELS, "RM_IDLE_CHANNELS", "a context ends"},
	{nvgpu.NV_ESC_RM_VID_HEAP_CONTROL, "RM_VID_HEAP_CONTROL", "memory of the GPU"},
	{nvgpu.NV_ESC_RM_MAP_MEMORY, "RM_MAP_MEMORY", "the GPU's memory and registers"},
	{nvgpu.NV_ESC_RM_UNMAP_MEMORY, "RM_UNMAP_MEMORY", "the end of that"},
	{nvgpu.NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, "RM_UPDATE_DEVICE_MAPPING_INFO", "the same"},
}

// uvmIoctls are the requests to /dev/nvidia-uvm, without those of its tools, which read other
// processes.
var uvmIoctls = []ioctl{
	{nvgpu.UVM_INITIALIZE, "INITIALIZE", "an address space"},
	{nvgpu.UVM_DEINITIALIZE, "DEINITIALIZE", "its end"},
	{nvgpu.UVM_MM_INITIALIZE, "MM_INITIALIZE", "an address space"},
	{nvgpu.UVM_CREATE_RANGE_GROUP, "CREATE_RANGE_GROUP", "managed memory of streams"},
	{nvgpu.UVM_DESTROY_RANGE_GROUP, "DESTROY_RANGE_GROUP", "the same"},
	{nvgpu.UVM_SET_RANGE_GROUP, "SET_RANGE_GROUP", "the same"},
	{nvgpu.UVM_REGISTER_GPU, "REGISTER_GPU", "a context"},
	{nvgpu.UVM_UNREGISTER_GPU, "UNREGISTER_GPU", "its end"},
	{nvgpu.UVM_REGISTER_GPU_VASPACE, "REGISTER_GPU_VASPACE", "a context"},
	{nvgpu.UVM_UNREGISTER_GPU_VASPACE, "UNREGISTER_GPU_VASPACE", "its end"},
	{nvgpu.UVM_REGISTER_CHANNEL, "REGISTER_CHANNEL", "a context, a stream"},
	{nvgpu.UVM_UNREGISTER_CHANNEL, "UNREGISTER_CHANNEL", "its end"},
	{nvgpu.UVM_ENABLE_PEER_ACCESS, "ENABLE_PEER_ACCESS", "several GPUs"},
	{nvgpu.UVM_DISABLE_PEER_ACCESS, "DISABLE_PEER_ACCESS", "several GPUs"},
	{nvgpu.UVM_CREATE_EXTERNAL_RANGE, "CREATE_EXTERNAL_RANGE", "addresses for memory"},
	{nvgpu.UVM_MAP_EXTERNAL_ALLOCATION, "MAP_EXTERNAL_ALLOCATION", "memory gets an address"},
	{nvgpu.UVM_UNMAP_EXTERNAL, "UNMAP_EXTERNAL", "memory loses it"},
	{nvgpu.UVM_FREE, "FREE", "addresses are given back"},
	{nvgpu.UVM_MAP_DYNAMIC_PARALLELISM_REGION, "MAP_DYNAMIC_PARALLELISM_REGION", "a context"},
	{nvgpu.UVM_ALLOC_SEMAPHORE_POOL, "ALLOC_SEMAPHORE_POOL", "a context"},
	{nvgpu.UVM_VALIDATE_VA_RANGE, "VALIDATE_VA_RANGE", "whether an address is managed"},
	{nvgpu.UVM_PAGEABLE_MEM_ACCESS, "PAGEABLE_MEM_ACCESS", "what the host can do"},
	{nvgpu.UVM_PAGEABLE_MEM_ACCESS_ON_GPU, "PAGEABLE_MEM_ACCESS_ON_GPU", "what the GPU can do"},
}

const (
	// ioctlBut is an ioctl's request without its size.
	ioctlBut = 0xc000ffff
	// frontIoctl is the direction and type of all frontIoctls.
	frontIoctl = 0xc0000000 | uint64('F')<<8
	// ioctlBits are the bits that the kernel looks at.
	ioctlBits = 0xffffffff
)

// ioctlRule allows the listed requests for any file: no other file that these processes have knows
// them.
func ioctlRule() seccomp.SyscallRule {
	var rule seccomp.Or
	for _, i := range frontIoctls {
		rule = append(rule, seccomp.PerArg{
			seccomp.AnyValue{}, seccomp.MaskedEqual(ioctlBut, uintptr(frontIoctl|uint64(i.number))),
		})
	}
	for _, i := range uvmIoctls {
		rule = append(rule, seccomp.PerArg{
			seccomp.AnyValue{}, seccomp.MaskedEqual(ioctlBits, uintptr(i.number)),
		})
	}
	return rule
}
