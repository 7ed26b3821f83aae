// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// The multiprocessor that occupancy is counted for: that of compute capability 9.0.
const (
	Architecture          = 90
	warpSize              = 32
	MaxThreadsPerBlock    = simt.MaxThreadsPerBlock
	threadsPerMultiproc   = 2048
	blocksPerMultiproc    = 32
	registersPerMultiproc = 65536
	registerUnit          = 256 // registers are given to a warp in units of so many
	warpUnit              = 4   // and warps fill the register file in groups
	minRegisters          = 8
	maxRegisters          = 255
	SharedPerBlock        = 48 << 10
	SharedPerBlockOptIn   = simt.MaxShared
	sharedPerMultiproc    = 228 << 10
	sharedReserved        = 1 << 10
	SharedUnit            = 128
)

// warpsByRegisters is how many warps the register file holds.
func warpsByRegisters(perThread int) int {
	perWarp := (perThread*warpSize + registerUnit - 1) / registerUnit * registerUnit
	return registersPerMultiproc / perWarp / warpUnit * warpUnit
}

// registersForWarps is how many registers a thread may take if the register file is to hold so many
// warps, of which no more count than a multiprocessor runs.
func registersForWarps(warps int) int {
	warps = (min(warps, threadsPerMultiproc/warpSize) + warpUnit - 1) / warpUnit * warpUnit
	return min(registersPerMultiproc/warps/registerUnit*registerUnit/warpSize, maxRegisters)
}

// BlocksByThreads is how many blocks fit regardless of shared memory.
func BlocksByThreads(k *decoded.Kernel, threads int) int {
	warps := (threads + warpSize - 1) / warpSize
	limit := min(threadsPerMultiproc/warpSize, warpsByRegisters(Registers(k)))
	return min(blocksPerMultiproc, limit/warps)
}

// Blocks is how many blocks of a kernel a multiprocessor holds, with so much dynamic shared memory.
func Blocks(k *decoded.Kernel, threads int, dynamic uint64) int {
	if threads > MaxThreads(k) {
		return 0
	}
	shared := (k.StaticShared+dynamic+SharedUnit-1)/SharedUnit*SharedUnit + sharedReserved
	return min(BlocksByThreads(k, threads), int(sharedPerMultiproc/shared))
}

// Registers guesses how many registers a thread of the kernel takes, within the bounds of the
// kernel's directives. Without directives the guess allows a launch with any size of block: it must
// not refuse what a GPU may accept.
func Registers(k *decoded.Kernel) int {
	threads := Volume(k.MaxThreads)
	if threads == 0 {
		threads = MaxThreadsPerBlock
	}
	most := registersForWarps((threads + warpSize - 1) / warpSize * max(1, k.MinBlocks))
	if k.MaxRegisters > 0 {
		most = min(most, k.MaxRegisters)
	}
	return max(min(k.Registers, most), minRegisters)
}

// MaxThreads is the largest block that the kernel can be launched with.
func MaxThreads(k *decoded.Kernel) int {
	warps := warpsByRegisters(Registers(k))
	threads := min(MaxThreadsPerBlock, warps*warpSize)
	for _, bound := range [][3]int{k.MaxThreads, k.ReqThreads} {
		if n := Volume(bound); n > 0 {
			threads = min(threads, n)
		}
	}
	return threads
}

// Volume is the number of threads in a block of that size.
func Volume(size [3]int) int { return size[0] * size[1] * size[2] }

// AvailableShared is how much dynamic shared memory each block may have if a multiprocessor is to
// hold so many.
func AvailableShared(k *decoded.Kernel, blocks int) uint64 {
	each := int64(sharedPerMultiproc/blocks/SharedUnit*SharedUnit - sharedReserved)
	return uint64(max(0, min(each, SharedPerBlockOptIn)-int64(k.StaticShared)))
}
