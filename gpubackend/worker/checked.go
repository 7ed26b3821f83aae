// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend/allowed"
)

// What structures of the guest's may say, where the driver gets them as they are. Scalars are checked by the generated handlers.

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
	textureFlagsAt    = 16
	resourceFlagsAt   = 136
	launchShapeBytes  = 32
)

// knownOps says whether operations on memory and their flags are all known.
func knownOps(ops []byte) bool {
	le := binary.LittleEndian
	for ; len(ops) >= memOpBytes; ops = ops[memOpBytes:] {
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

// plainPool says whether a CUmemPoolProps is of a device's memory that nobody exports, as graphs take it.
func plainPool(b []byte) bool {
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

// knownArray says whether the flags of an array to be made are known.
func knownArray(desc []byte) bool {
	return allowed.ArrayFlags.Has(uint64(binary.LittleEndian.Uint32(desc[arrayFlagsAt:])))
}

// knownAttributes says whether the attributes of a launch are known, which follow its shape.
func knownAttributes(config []byte) bool {
	for b := config[min(len(config), launchShapeBytes):]; len(b) >= attributeBytes; b = b[attributeBytes:] {
		if !allowed.LaunchAttribute.Has(uint64(binary.LittleEndian.Uint32(b))) {
			return false
		}
	}
	return true
}
