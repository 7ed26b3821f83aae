// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// TestAtomicsAreThere: what the device says of an atomic operation is what kernels can do.
func TestAtomicsAreThere(t *testing.T) {
	type kind struct{ type32, type64 ptx.Type }
	unsigned, signed := kind{ptx.U32, ptx.U64}, kind{ptx.S32, ptx.S64}
	bits, float := kind{ptx.B32, ptx.B64}, kind{ptx.F32, ptx.F64}
	for op, told := range atomics {
		of := [len(atomics)]struct {
			name             string
			signed, unsigned kind
		}{
			{"add", signed, unsigned}, {"min", signed, unsigned}, {"max", signed, unsigned},
			{"inc", kind{}, unsigned}, {"dec", kind{}, unsigned}, {"and", kind{}, bits},
			{"or", kind{}, bits}, {"xor", kind{}, bits}, {"exch", kind{}, bits},
			{"cas", kind{}, bits}, {"add", float, kind{}}, {}, {},
		}[op]
		var there uint16
		for _, k := range []struct {
			kind
			bit uint16
		}{
			{of.signed, cudaabi.AtomicCapabilitySigned},
			{of.unsigned, cudaabi.AtomicCapabilityUnsigned},
		} {
			if k.kind == (kind{}) {
				continue
			}
			if scalar.Update(of.name, k.type32) != nil {
				there |= k.bit | cudaabi.AtomicCapabilityScalar32
			}
			if scalar.Update(of.name, k.type64) != nil {
				there |= k.bit | cudaabi.AtomicCapabilityScalar64
			}
		}
		if told&^cudaabi.AtomicCapabilityReduction != there {
			t.Errorf("operation %d (%s): %#x is told, %#x is there", op, of.name, told, there)
		}
	}
}
