// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
)

// OccupancyMaxActiveBlocksPerMultiprocessorWithFlags implements gpubackend.Driver.
func (x *Code) OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	h gpubackend.Function, threads, dynamic, flags uint64,
) (uint64, gpubackend.Result) {
	f, result := x.Function(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if int32(threads) <= 0 || flags&^cudaabi.OccupancyDisableCachingOverride != 0 {
		return 0, gpubackend.InvalidValue
	}
	return uint64(f.Blocks(int(int32(threads)), dynamic)), gpubackend.Success
}

// OccupancyAvailableDynamicSMemPerBlock implements gpubackend.Driver.
func (x *Code) OccupancyAvailableDynamicSMemPerBlock(
	h gpubackend.Function, blocks, threads uint64,
) (uint64, gpubackend.Result) {
	f, result := x.Function(h)
	if result != gpubackend.Success {
		return 0, result
	}
	n, size := int(int32(blocks)), int(int32(threads))
	if n <= 0 || size <= 0 || size > chip.MaxThreads(f.Entry) ||
		n > chip.BlocksByThreads(f.Entry, size) {
		return 0, gpubackend.InvalidValue
	}
	return chip.AvailableShared(f.Entry, n), gpubackend.Success
}
