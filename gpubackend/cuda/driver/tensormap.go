// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// tensorArrays is where TensorMapEncode's arrays are in C memory, after the map itself: the driver
// wants it aligned to 64 bytes.
type tensorArrays struct {
	memory                              cmem.Memory
	base                                uint64 // of the map
	dim, stride, box, upper, elementary uint64
}

// newTensorArrays takes the arrays from the parameters, of which word returns the one at an offset.
func newTensorArrays(word func(int) uint64) tensorArrays {
	const size = cudaabi.TensorMapSize + 8*2*wire.TensorRankMax + 4*3*wire.TensorRankMax
	t := tensorArrays{memory: cmem.Allocate(size + 64)}
	t.base = (t.memory.Address() + 63) &^ 63
	bytes := t.bytes()
	at := cudaabi.TensorMapSize
	place := func(first, width int) uint64 {
		begin := t.base + uint64(at)
		for i := range wire.TensorRankMax {
			if width == 8 {
				binary.LittleEndian.PutUint64(bytes[at:], word(first+8*i))
			} else {
				binary.LittleEndian.PutUint32(bytes[at:], uint32(word(first+8*i)))
			}
			at += width
		}
		return begin
	}
	t.dim = place(wire.TensorParametersDimOffset, 8)
	t.stride = place(wire.TensorParametersStrideOffset, 8)
	t.box = place(wire.TensorParametersBoxOffset, 4)
	t.upper = place(wire.TensorParametersUpperOffset, 4)
	t.elementary = place(wire.TensorParametersElementOffset, 4)
	return t
}

// bytes is the memory from the map on.
func (t *tensorArrays) bytes() []byte { return t.memory.Bytes()[t.base-t.memory.Address():] }

// TensorMapEncode makes the driver encode a tensor map, which needs neither device nor context.
func (d Code) TensorMapEncode(kind uint64, parameters, out []byte) gpubackend.Result {
	if len(parameters) != wire.TensorParametersSize || len(out) != cudaabi.TensorMapSize {
		return gpubackend.InvalidValue
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(parameters[i:]) }
	rank := word(wire.TensorParametersRankOffset)
	if kind != wire.TensorMapKindReplaceAddress && (rank == 0 || rank > wire.TensorRankMax) {
		return gpubackend.InvalidValue
	}
	t := newTensorArrays(word)
	defer t.memory.Free()
	if kind == wire.TensorMapKindReplaceAddress {
		copy(t.bytes()[:cudaabi.TensorMapSize], parameters[wire.TensorReplacementMapOffset:])
	}
	r := d.encodeTensorMap(kind, word, &t)
	if r == gpubackend.Success {
		copy(out, t.bytes()[:cudaabi.TensorMapSize])
	}
	return r
}

func (d Code) encodeTensorMap(
	kind uint64, word func(int) uint64, t *tensorArrays,
) gpubackend.Result {
	typ := word(wire.TensorParametersTypeOffset)
	rank := word(wire.TensorParametersRankOffset)
	address := word(wire.TensorParametersAddressOffset)
	channels := word(wire.TensorParametersChannelsOffset)
	pixels := word(wire.TensorParametersPixelsOffset)
	interleave := word(wire.TensorParametersInterleaveOffset)
	swizzle := word(wire.TensorParametersSwizzleOffset)
	promotion := word(wire.TensorParametersPromotionOffset)
	fill := word(wire.TensorParametersFillOffset)
	switch kind {
	case wire.TensorMapKindTiled:
		return d.call(symTensorMapEncodeTiled, t.base, typ, rank, address, t.dim, t.stride, t.box,
			t.elementary,
			interleave, swizzle, promotion, fill)
	case wire.TensorMapKindIm2col:
		return d.call(symTensorMapEncodeIm2col, t.base, typ, rank, address, t.dim, t.stride,
			t.box, t.upper, channels, pixels, t.elementary, interleave, swizzle, promotion, fill)
	case wire.TensorMapKindIm2colWide:
		lower, upper := word(wire.TensorParametersBoxOffset), word(wire.TensorParametersUpperOffset)
		return d.call(symTensorMapEncodeIm2colWide, t.base, typ, rank, address, t.dim, t.stride,
			lower, upper, channels, pixels, t.elementary, interleave,
			word(wire.TensorParametersModeOffset), swizzle, promotion, fill)
	case wire.TensorMapKindReplaceAddress:
		return d.call(symTensorMapReplaceAddress, t.base, word(wire.TensorReplacementAddressOffset))
	}
	return gpubackend.InvalidValue
}
