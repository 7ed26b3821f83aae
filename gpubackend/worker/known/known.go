// SPDX-License-Identifier: Apache-2.0

// Package known says what structures of the guest's may hold, where the driver gets them as they
// are. Scalars are checked by the generated handlers (package allowed). What isn't known is
// refused: a driver may give it a meaning later.
package known

import (
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// ShapeBytes is the size of a launch's shape, which its attributes follow.
const ShapeBytes = wire.LaunchShapeSize

// Ops says whether operations on memory and their flags are all known.
func Ops(ops []byte) bool {
	const size = cudaabi.StreamBatchMemOpParamsSize
	for ; len(ops) >= size; ops = ops[size:] {
		if !knownOp(cudaabi.StreamBatchMemOpParams(ops)) {
			return false
		}
	}
	return true
}

func knownOp(p cudaabi.StreamBatchMemOpParams) bool {
	switch p.Operation() {
	case cudaabi.MemOpWaitValue32, cudaabi.MemOpWaitValue64:
		return allowed.StreamWaitFlags.Has(uint64(p.WaitValueFlags()))
	case cudaabi.MemOpWriteValue32, cudaabi.MemOpWriteValue64:
		return allowed.StreamWriteFlags.Has(uint64(p.WriteValueFlags()))
	case cudaabi.MemOpFlushRemoteWrites:
		return allowed.StreamBarrierFlags.Has(uint64(p.FlushRemoteWritesFlags()))
	case cudaabi.MemOpBarrier:
		return allowed.StreamBarrierFlags.Has(uint64(p.MemoryBarrierFlags()))
	}
	return allowed.StreamOp.Has(uint64(p.Operation()))
}

// PlainPool says whether a CUmemPoolProps is of a device's memory that nobody exports, as graphs
// take it.
func PlainPool(b []byte) bool {
	p := cudaabi.MemPoolProps(b)
	if p.AllocType() != cudaabi.MemAllocationPinned || p.HandleTypes() != cudaabi.MemHandleNone ||
		p.Location().Type() != cudaabi.MemLocationDevice {
		return false
	}
	for _, x := range p.Reserved() {
		if x != 0 {
			return false
		}
	}
	return p.Usage() == 0 && p.Win32SecurityAttributes() == 0
}

// Array says whether the flags of an array to be made are known.
func Array(desc []byte) bool {
	return allowed.ArrayFlags.Has(uint64(cudaabi.Array3DDescriptor(desc).Flags()))
}

// Attributes says whether the attributes of a launch are known, which follow its shape.
func Attributes(config []byte) bool {
	const size = cudaabi.LaunchAttributeSize
	for b := config[min(len(config), ShapeBytes):]; len(b) >= size; b = b[size:] {
		if !allowed.LaunchAttribute.Has(uint64(cudaabi.LaunchAttribute(b).ID())) {
			return false
		}
	}
	return true
}
