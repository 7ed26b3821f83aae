// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// The multiprocessor that occupancy is counted for: that of compute capability 9.0.
const (
	architecture           = 90
	warpSize               = 32
	maxThreadsPerBlock     = 1024
	threadsPerMultiproc    = 2048
	blocksPerMultiproc     = 32
	registersPerMultiproc  = 65536
	registerUnit           = 256 // registers are given to a warp in units of so many
	warpUnit               = 4   // and warps fill the register file in groups
	minRegisters           = 8
	maxRegisters           = 255
	sharedPerBlock         = 48 << 10
	sharedPerBlockOptIn    = 227 << 10
	sharedPerMultiproc     = 228 << 10
	sharedReserved         = 1 << 10
	sharedUnit             = 128
	occupancyDisableCaches = 1 // the only flag of cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
)

// warpsByRegisters is how many warps the register file holds.
func warpsByRegisters(perThread int) int {
	perWarp := (perThread*warpSize + registerUnit - 1) / registerUnit * registerUnit
	return registersPerMultiproc / perWarp / warpUnit * warpUnit
}

// registersForWarps is what a thread may take if the register file is to hold so many warps. What a
// multiprocessor can't hold anyway asks for nothing.
func registersForWarps(warps int) int {
	warps = (min(warps, threadsPerMultiproc/warpSize) + warpUnit - 1) / warpUnit * warpUnit
	return min(registersPerMultiproc/warps/registerUnit*registerUnit/warpSize, maxRegisters)
}

// blocksByThreads is how many blocks fit regardless of shared memory.
func (f *function) blocksByThreads(threads int) int {
	warps := (threads + warpSize - 1) / warpSize
	limit := min(threadsPerMultiproc/warpSize, warpsByRegisters(registers(f.entry)))
	return min(blocksPerMultiproc, limit/warps)
}

// blocks is how many blocks of the kernel a multiprocessor holds.
func (f *function) blocks(threads int, dynamic uint64) int {
	if threads > maxThreads(f.entry) || dynamic > uint64(max(0, f.attribute(functionMaxDynamic))) {
		return 0
	}
	shared := (f.entry.StaticShared+dynamic+sharedUnit-1)/sharedUnit*sharedUnit + sharedReserved
	return min(f.blocksByThreads(threads), int(sharedPerMultiproc/shared))
}

// OccupancyMaxActiveBlocksPerMultiprocessorWithFlags implements gpubackend.Driver.
func (d *Device) OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	h gpubackend.Function, threads, dynamic, flags uint64,
) (uint64, gpubackend.Result) {
	f, result := d.lookup(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if int32(threads) <= 0 || flags&^occupancyDisableCaches != 0 {
		return 0, gpubackend.InvalidValue
	}
	return uint64(f.blocks(int(int32(threads)), dynamic)), gpubackend.Success
}

// OccupancyAvailableDynamicSMemPerBlock implements gpubackend.Driver.
func (d *Device) OccupancyAvailableDynamicSMemPerBlock(
	h gpubackend.Function, blocks, threads uint64,
) (uint64, gpubackend.Result) {
	f, result := d.lookup(h)
	if result != gpubackend.Success {
		return 0, result
	}
	n, size := int(int32(blocks)), int(int32(threads))
	if n <= 0 || size <= 0 || size > maxThreads(f.entry) || n > f.blocksByThreads(size) {
		return 0, gpubackend.InvalidValue
	}
	each := int64(sharedPerMultiproc/n/sharedUnit*sharedUnit - sharedReserved)
	return uint64(max(0, min(each, sharedPerBlockOptIn)-int64(f.entry.StaticShared))), gpubackend.Success
}
