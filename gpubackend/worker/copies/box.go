// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"iter"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend"
)

// box is rows of device memory: width bytes each, height rows to a plane, depth planes. A linear
// copy is one row.
type box struct {
	address, pitch, slice uint64
	width, height, depth  uint64
}

// hostLayout is where the rows of a box are in a mapping.
type hostLayout struct{ offset, pitch, slice uint64 }

func linear(offset, bytes uint64) hostLayout { return hostLayout{offset, bytes, bytes} }

// maxBox bounds the extents of a box, so that products of two don't overflow.
const maxBox = 1 << 40

// valid says whether rows of that pitch and slice fit the box without overflow.
func (b *box) valid(pitch, slice uint64) bool {
	if b.width > maxBox || b.height > 1<<24 || b.depth > 1<<24 || pitch > maxBox || slice > maxBox {
		return false
	}
	if b.height > 1 && pitch < b.width {
		return false
	}
	if b.depth > 1 && b.height > 0 && slice < (b.height-1)*pitch+b.width {
		return false // overlapping planes: more work than there are bytes
	}
	hi, rows := bits.Mul64(b.height, b.depth)
	if hi != 0 || rows > 1<<32 {
		return false
	}
	hi, bytes := bits.Mul64(rows, b.width)
	return hi == 0 && bytes < gpubackend.Addresses && b.extent(pitch, slice) < gpubackend.Addresses
}

// bytes is the payload of the box.
func (b *box) bytes() uint64 { return b.width * b.height * b.depth }

// extent is the distance from the first byte to the end of the last row.
func (b *box) extent(pitch, slice uint64) uint64 {
	if b.bytes() == 0 {
		return 0
	}
	hi1, planes := bits.Mul64(b.depth-1, slice)
	hi2, rows := bits.Mul64(b.height-1, pitch)
	sum, carry := bits.Add64(planes, rows, 0)
	sum, carry2 := bits.Add64(sum, b.width, 0)
	if hi1|hi2|carry|carry2 != 0 {
		return ^uint64(0)
	}
	return sum
}

// contiguous says whether the rows follow one another on the device without gaps.
func (b *box) contiguous() bool {
	return (b.height <= 1 || b.pitch == b.width) && (b.depth <= 1 || b.slice == b.width*b.height)
}

// offset is a cursor's position on the device, relative to the box's address.
func (b *box) offset(p cursor) uint64 { return p.row.offset(b.pitch, b.slice) + p.x }

// row says which row of a box, and of which plane.
type row struct{ y, z uint64 }

func (r row) offset(pitch, slice uint64) uint64 { return r.y*pitch + r.z*slice }

// rows yields the rows of the box.
func (b *box) rows() iter.Seq[row] {
	return func(yield func(row) bool) {
		for z := range b.depth {
			for y := range b.height {
				if !yield(row{y, z}) {
					return
				}
			}
		}
	}
}
