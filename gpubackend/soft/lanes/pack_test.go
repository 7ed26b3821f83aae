// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"math/rand"
	"slices"
	"testing"
)

// TestPack compares the fast ways to pack and unpack words with the general ones.
func TestPack(t *testing.T) {
	t.Parallel()
	const wide, low, high = 0, 8 * Count, 12 * Count
	regs, widths := []uint32{low, high}, []Width{Width32, Width32}
	slab, r := NewRegisters(16 * Count)
	random := rand.New(rand.NewSource(1))
	for range 100 {
		for i := range slab {
			slab[i] = random.Uint64()
		}
		mask := All
		if random.Intn(2) == 0 {
			mask = random.Uint32()
		}
		for name, ways := range map[string][2]Func{
			"pack":   {Pack(32, regs, widths), packing(32, regs, widths)},
			"unpack": {Unpack(32, regs, widths), unpacking(32, regs, widths)},
		} {
			o := &Operands{D: wide, DW: Width64, A: wide, AW: Width64}
			before := slices.Clone(slab)
			ways[1](r, o, mask)
			want := slices.Clone(slab)
			copy(slab, before)
			ways[0](r, o, mask)
			if !slices.Equal(slab, want) {
				t.Errorf("%s for the lanes %#x differs", name, mask)
			}
		}
	}
}

// TestUnpackElements unpacks four elements of 16 bits, changes one, and packs them again.
func TestUnpackElements(t *testing.T) {
	t.Parallel()
	const wide, first = 0, 8 * Count
	var regs []uint32
	var widths []Width
	for k := range uint32(4) {
		regs, widths = append(regs, first+k*2*Count), append(widths, Width16)
	}
	_, r := NewRegisters(16 * Count)
	r.Fill(wide, Width64, 0x4444333322221111, All)
	o := &Operands{D: wide, DW: Width64, A: wide, AW: Width64}
	Unpack(16, regs, widths)(r, o, All)
	if got := r.Lane(regs[2], Width16, 31); got != 0x3333 {
		t.Errorf("the third element is %#x", got)
	}
	r.Fill(regs[0], Width16, 0xabcd, 1)
	Pack(16, regs, widths)(r, o, All)
	if a, b := r.Lane(wide, Width64, 0), r.Lane(wide, Width64, 1); a != 0x444433332222abcd ||
		b != 0x4444333322221111 {
		t.Errorf("packed %#x and %#x", a, b)
	}
}
