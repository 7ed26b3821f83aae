// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// Parameters travel packed, and are given to the driver so (`extra`). For some launches it takes nothing but pointers to each
// (`kernelParams`): cooperative ones in graphs, measured with driver 580 (CUDA_ERROR_INVALID_VALUE otherwise).

// offsets is where each parameter of a function lies among the packed ones. Nil: there are none, or these aren't as long as
// the function's, which the driver is to say.
func (d *Device) offsets(f gpubackend.Function, packed []byte) []uint32 {
	if len(packed) == 0 {
		return nil
	}
	layout, end, r := parameters(d.parameterOf(f))
	if r != gpubackend.Success || int(end) != len(packed) {
		return nil
	}
	offsets := make([]uint32, len(layout)/8)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint32(layout[8*i:])
	}
	return offsets
}

// attributeCooperative is CU_LAUNCH_ATTRIBUTE_COOPERATIVE.
const attributeCooperative = 2

// wantsPointers says whether a launch with these attributes must be given pointers if it is captured.
func wantsPointers(attributes []byte) bool {
	for ; len(attributes) >= driver.LaunchAttributeBytes; attributes = attributes[driver.LaunchAttributeBytes:] {
		if binary.LittleEndian.Uint32(attributes) == attributeCooperative {
			return true
		}
	}
	return false
}
