// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// maxParameters bounds the parameters of a kernel: one byte each.
const maxParameters = cudaabi.MaxParameterBytes

// FuncParameters says where a function's parameters lie among the packed ones: pairs of offset and
// size, and the end of the last.
func (d Code) FuncParameters(
	f gpubackend.Function,
) (layout []byte, end uint32, r gpubackend.Result) {
	return d.parameters(symFuncGetParamInfo, uint64(f))
}

// KernelParameters does so for a kernel.
func (d Code) KernelParameters(
	k gpubackend.Kernel,
) (layout []byte, end uint32, r gpubackend.Result) {
	return d.parameters(symKernelGetParamInfo, uint64(k))
}

// parameters asks for one parameter after the other until there is none.
func (l *library) parameters(s symbol, of uint64) (layout []byte, end uint32, r gpubackend.Result) {
	for i := range uint64(maxParameters) {
		r = l.call(s, of, i, l.out(0), l.out(1))
		if r == gpubackend.InvalidValue {
			return layout, end, gpubackend.Success
		}
		if r != gpubackend.Success {
			return nil, 0, r
		}
		offset, size := uint32(l.value(0)), uint32(l.value(1))
		layout = binary.LittleEndian.AppendUint32(layout, offset)
		layout = binary.LittleEndian.AppendUint32(layout, size)
		end = max(end, offset+size)
	}
	return layout, end, gpubackend.Success
}

// Parameters travel packed, and that is how the driver gets them (`extra`). Cooperative launches in
// graphs need a pointer to each (`kernelParams`): otherwise driver 580 answers
// CUDA_ERROR_INVALID_VALUE.

// FuncOffsets is where each parameter of a function lies among the packed ones. nil: there are
// none, or packed hasn't the length of the function's, which the driver reports.
func (d Launches) FuncOffsets(f gpubackend.Function, packed []byte) []uint32 {
	if len(packed) == 0 {
		return nil
	}
	offsets, _ := d.Offsets(f, packed)
	return offsets
}

// Offsets is where each parameter of a function lies among the packed ones. false: those aren't the
// function's.
func (d Launches) Offsets(f gpubackend.Function, packed []byte) (offsets []uint32, ok bool) {
	layout, end, r := d.parameters(symFuncGetParamInfo, uint64(f))
	if r != gpubackend.Success || int(end) != len(packed) {
		return nil, false
	}
	offsets = make([]uint32, len(layout)/8)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint32(layout[8*i:])
	}
	return offsets, true
}
