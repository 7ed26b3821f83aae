// SPDX-License-Identifier: Apache-2.0

package lanes

import "math/bits"

// Count is the number of threads of a warp.
const Count = 32

// All is the mask of a full warp.
const All uint32 = 0xffffffff

// Width is the size of a register in bytes; predicates have width 1.
type Width uint8

// The widths that there are.
const (
	WidthPred Width = 1
	Width16   Width = 2
	Width32   Width = 4
	Width64   Width = 8
)

// Operands are the registers of an instruction: their offsets in the frame, and their widths, 0
// for none. Constants have registers too, so that there is only this one form.
type Operands struct {
	D, A, B, C     uint32
	DW, AW, BW, CW Width
}

// A Func computes registers for the lanes of mask m.
type Func func(r Registers, o *Operands, m uint32)

// First is the number of the lowest lane in m.
func First(m uint32) int { return bits.TrailingZeros32(m) & (Count - 1) }
