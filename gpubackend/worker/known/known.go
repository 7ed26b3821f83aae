// SPDX-License-Identifier: Apache-2.0

// Package known says what the guest's structures may hold that the driver gets unchanged. Scalars
// are checked by the generated handlers (package allowed). What isn't known is refused: a driver
// may give it a meaning later.
package known

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// ShapeBytes is the size of a launch's shape, which its attributes follow.
const ShapeBytes = wire.LaunchShapeSize

// Ops refuses operations on memory that aren't known, or have unknown flags. Like the driver, it
// checks one after the other. It also refuses waits that flush other devices' writes, since guests
// are told that their GPU can't (CAN_FLUSH_REMOTE_WRITES).
func Ops(ops []byte) gpubackend.Result {
	const size = cudaabi.StreamBatchMemOpParamsSize
	refused := gpubackend.InvalidValue
	for ; len(ops) >= size; ops = ops[size:] {
		p := cudaabi.StreamBatchMemOpParams(ops)
		if !knownOp(p) {
			return refused
		}
		if flushes(p) {
			refused = gpubackend.NotSupported
		}
	}
	return gpubackend.Success
}

// flushes says whether a known operation makes other devices' writes visible.
func flushes(p cudaabi.StreamBatchMemOpParams) bool {
	switch p.Operation() {
	case cudaabi.MemOpWaitValue32, cudaabi.MemOpWaitValue64:
		return p.WaitValueFlags()&cudaabi.StreamWaitValueFlush != 0
	}
	return p.Operation() == cudaabi.MemOpFlushRemoteWrites
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

// PlainPool refuses a CUmemPoolProps, unless it is of device memory that isn't exported, as in
// graphs.
func PlainPool(b []byte) gpubackend.Result {
	p := cudaabi.MemPoolProps(b)
	if p.AllocType() != cudaabi.MemAllocationPinned || p.HandleTypes() != cudaabi.MemHandleNone ||
		p.Location().Type() != cudaabi.MemLocationDevice {
		return gpubackend.InvalidValue
	}
	for _, x := range p.Reserved() {
		if x != 0 {
			return gpubackend.InvalidValue
		}
	}
	return orInvalid(p.Usage() == 0 && p.Win32SecurityAttributes() == 0)
}

// Array refuses to make an array with unknown flags.
func Array(desc []byte) gpubackend.Result {
	return orInvalid(allowed.ArrayFlags.Has(uint64(cudaabi.Array3DDescriptor(desc).Flags())))
}

// Attributes refuses attributes of a launch that aren't known; they follow its shape.
func Attributes(config []byte) gpubackend.Result {
	const size = cudaabi.LaunchAttributeSize
	for b := config[min(len(config), ShapeBytes):]; len(b) >= size; b = b[size:] {
		if !allowed.LaunchAttribute.Has(uint64(cudaabi.LaunchAttribute(b).ID())) {
			return gpubackend.InvalidValue
		}
	}
	return gpubackend.Success
}

func orInvalid(known bool) gpubackend.Result {
	if !known {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}
