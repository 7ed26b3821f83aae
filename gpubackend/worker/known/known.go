// SPDX-License-Identifier: Apache-2.0

// Package known says what structures of the guest's may hold, where the driver gets them as they
// are. Scalars are checked by the generated handlers (package allowed). What isn't known is
// refused: a driver may give it a meaning later.
package known

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend/allowed"
)

// Sizes of structures.
const (
	OpBytes        = 48 // of CUstreamBatchMemOpParams
	PoolBytes      = 88 // of CUmemPoolProps
	AttributeBytes = 72 // of CUlaunchAttribute
	ShapeBytes     = 32 // of a launch's shape, which attributes follow
)

// CUstreamBatchMemOpType, and where the flags of an operation are.
const (
	memOpWait32       = 1
	memOpWrite32      = 2
	memOpWait64       = 4
	memOpWrite64      = 5
	memOpFlush        = 3
	memOpBarrier      = 6
	memOpFlagsAt      = 24
	memOpShortFlagsAt = 4 // of those two
	deviceLocation    = 1
	pinnedAllocation  = 1
	poolHandleTypesAt = 4
	poolLocationAt    = 8
	poolSecurityAt    = 16
	poolLargestAt     = 24
	arrayFlagsAt      = 32
)

// Ops says whether operations on memory and their flags are all known.
func Ops(ops []byte) bool {
	le := binary.LittleEndian
	for ; len(ops) >= OpBytes; ops = ops[OpBytes:] {
		op, flags := uint64(le.Uint32(ops)), uint64(le.Uint32(ops[memOpFlagsAt:]))
		known := allowed.StreamOp.Has(op)
		switch op {
		case memOpWait32, memOpWait64:
			known = allowed.StreamWaitFlags.Has(flags)
		case memOpWrite32, memOpWrite64:
			known = allowed.StreamWriteFlags.Has(flags)
		case memOpFlush, memOpBarrier:
			known = allowed.StreamBarrierFlags.Has(uint64(le.Uint32(ops[memOpShortFlagsAt:])))
		}
		if !known {
			return false
		}
	}
	return true
}

// PlainPool says whether a CUmemPoolProps is of a device's memory that nobody exports, as graphs take it.
func PlainPool(b []byte) bool {
	le := binary.LittleEndian
	if le.Uint32(b) != pinnedAllocation || le.Uint32(b[poolHandleTypesAt:]) != 0 || le.Uint32(b[poolLocationAt:]) != deviceLocation {
		return false
	}
	for _, x := range b[poolLargestAt+8:] {
		if x != 0 {
			return false
		}
	}
	return le.Uint64(b[poolSecurityAt:]) == 0
}

// Array says whether the flags of an array to be made are known.
func Array(desc []byte) bool {
	return allowed.ArrayFlags.Has(uint64(binary.LittleEndian.Uint32(desc[arrayFlagsAt:])))
}

// Attributes says whether the attributes of a launch are known, which follow its shape.
func Attributes(config []byte) bool {
	for b := config[min(len(config), ShapeBytes):]; len(b) >= AttributeBytes; b = b[AttributeBytes:] {
		if !allowed.LaunchAttribute.Has(uint64(binary.LittleEndian.Uint32(b))) {
			return false
		}
	}
	return true
}
