// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Kinds of TensorMapEncode.
const (
	tensorTiled = iota
	tensorIm2col
	tensorIm2colWide
	tensorReplaceAddress
)

// The words of TensorMapEncode's parameters. Corners are one word each in the wide form.
const (
	tensorType           = 0
	tensorRank           = 1
	tensorAddress        = 2
	tensorDim            = 3
	tensorStride         = 8
	tensorBox            = 13 // box of the tiled form, lower corner of the others
	tensorUpper          = 18
	tensorElement        = 23
	tensorChannels       = 28
	tensorPixels         = 29
	tensorInterleave     = 30
	tensorSwizzle        = 31
	tensorPromotion      = 32
	tensorFill           = 33
	tensorMode           = 34
	tensorWords          = 35
	tensorMaxRank        = 5
	tensorReplaceMapWord = 1 // after the address
)

// tensorArrays is where TensorMapEncode's arrays are in C memory, after the map itself: the driver
// wants it aligned to 64 bytes.
type tensorArrays struct {
	block                               cmem.Block
	base                                uint64 // of the map
	dim, stride, box, upper, elementary uint64
}

func newTensorArrays(word func(int) uint64) tensorArrays {
	const size = cudaabi.TensorMapSize + 8*2*tensorMaxRank + 4*3*tensorMaxRank
	t := tensorArrays{block: cmem.Allocate(size + 64)}
	t.base = (t.block.Address() + 63) &^ 63
	bytes := t.bytes()
	at := cudaabi.TensorMapSize
	place := func(first, width int) uint64 {
		begin := t.base + uint64(at)
		for i := range tensorMaxRank {
			if width == 8 {
				binary.LittleEndian.PutUint64(bytes[at:], word(first+i))
			} else {
				binary.LittleEndian.PutUint32(bytes[at:], uint32(word(first+i)))
			}
			at += width
		}
		return begin
	}
	t.dim, t.stride = place(tensorDim, 8), place(tensorStride, 8)
	t.box, t.upper, t.elementary = place(tensorBox, 4), place(tensorUpper, 4), place(tensorElement, 4)
	return t
}

// bytes is the memory from the map on.
func (t *tensorArrays) bytes() []byte { return t.block.Bytes()[t.base-t.block.Address():] }

// TensorMapEncode has the driver encode a tensor map, which needs neither device nor context.
func (d *Driver) TensorMapEncode(kind uint64, parameters, out []byte) gpubackend.Result {
	if len(parameters) != 8*tensorWords || len(out) != cudaabi.TensorMapSize {
		return gpubackend.InvalidValue
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(parameters[8*i:]) }
	if kind != tensorReplaceAddress && (word(tensorRank) == 0 || word(tensorRank) > tensorMaxRank) {
		return gpubackend.InvalidValue
	}
	t := newTensorArrays(word)
	defer t.block.Free()
	if kind == tensorReplaceAddress {
		copy(t.bytes()[:cudaabi.TensorMapSize], parameters[8*tensorReplaceMapWord:])
	}
	r := d.encodeTensorMap(kind, word, &t)
	if r == gpubackend.Success {
		copy(out, t.bytes()[:cudaabi.TensorMapSize])
	}
	return r
}

func (d *Driver) encodeTensorMap(
	kind uint64, word func(int) uint64, t *tensorArrays,
) gpubackend.Result {
	typ, rank, address := word(tensorType), word(tensorRank), word(tensorAddress)
	interleave, swizzle, promotion, fill := word(tensorInterleave), word(tensorSwizzle), word(tensorPromotion), word(tensorFill)
	switch kind {
	case tensorTiled:
		return d.call(symTensorMapEncodeTiled, t.base, typ, rank, address, t.dim, t.stride, t.box, t.elementary,
			interleave, swizzle, promotion, fill)
	case tensorIm2col:
		return d.call(symTensorMapEncodeIm2col, t.base, typ, rank, address, t.dim, t.stride, t.box, t.upper,
			word(tensorChannels), word(tensorPixels), t.elementary, interleave, swizzle, promotion, fill)
	case tensorIm2colWide:
		return d.call(symTensorMapEncodeIm2colWide, t.base, typ, rank, address, t.dim, t.stride, word(tensorBox),
			word(tensorUpper), word(tensorChannels), word(tensorPixels), t.elementary, interleave, word(tensorMode),
			swizzle, promotion, fill)
	case tensorReplaceAddress:
		return d.call(symTensorMapReplaceAddress, t.base, word(0))
	}
	return gpubackend.InvalidValue
}
