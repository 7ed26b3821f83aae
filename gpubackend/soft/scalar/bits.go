// SPDX-License-Identifier: Apache-2.0

package scalar

import (
	"math"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// FindBit is bfind: the position of the most significant bit that isn't a sign.
func FindBit(t ptx.Type, shiftAmount bool) Func {
	top := uint64(t.Size()*8 - 1)
	return func(a, _, _ uint64) uint64 {
		a = Widen(t, a)
		if t.Signed() && int64(a) < 0 {
			a = ^a
		}
		if a == 0 {
			return 0xffffffff
		}
		pos := uint64(63 - bits.LeadingZeros64(a))
		if shiftAmount {
			return top - pos
		}
		return pos
	}
}

// fieldOf gives position and length of a bit field: 8 bits each for 32-bit
// operations; GPUs take all bits for 64-bit ones.
func fieldOf(n, b, c uint64) (pos, length uint64) {
	if n == 32 {
		return b & 0xff, c & 0xff
	}
	return min(b&0xffffffff, 255), min(c&0xffffffff, 255)
}

// ExtractField is bfe.
func ExtractField(t ptx.Type) Func {
	n := uint64(t.Size() * 8)
	return func(a, b, c uint64) uint64 {
		pos, length := fieldOf(n, b, c)
		a = Widen(t, a)
		if !t.Signed() {
			if pos >= n || length == 0 {
				return 0
			}
			return a >> pos & (1<<min(length, 63) - 1 | -Bit(length >= 64))
		}
		if length == 0 {
			return 0
		}
		sign := a >> min(pos+length-1, n-1) & 1
		field := uint64(0)
		if pos < n {
			field = a >> pos & (1<<min(length, 63) - 1 | -Bit(length >= 64))
			length = min(length, n-pos)
		} else {
			length = 0
		}
		if length < 64 {
			field = field&(1<<length-1) | -sign<<length
		}
		return field
	}
}

// Permute is prmt without a mode.
func Permute(a, b, c uint64) uint64 {
	pool := a&0xffffffff | b<<32
	var r uint64
	for i := range 4 {
		sel := c >> (4 * i) & 15
		v := pool >> (8 * (sel & 7)) & 0xff
		if sel&8 != 0 {
			v = uint64(int8(v)>>7) & 0xff
		}
		r |= v << (8 * i)
	}
	return r
}

// PermuteModes gives the selectors of prmt's special modes for c & 3.
var PermuteModes = map[string][4]uint64{
	"f4e":  {0x3210, 0x4321, 0x5432, 0x6543},
	"b4e":  {0x5670, 0x6701, 0x7012, 0x0123},
	"rc8":  {0x0000, 0x1111, 0x2222, 0x3333},
	"ecl":  {0x3210, 0x3211, 0x3222, 0x3333},
	"ecr":  {0x0000, 0x1110, 0x2210, 0x3210},
	"rc16": {0x1010, 0x3232, 0x1010, 0x3232},
}

// Logic3 is lop3 with a truth table.
func Logic3(table uint64) Func {
	return func(a, b, c uint64) uint64 {
		var r uint64
		for i := range uint64(8) {
			if table>>i&1 != 0 {
				x := a ^ (i>>2&1 - 1)
				y := b ^ (i>>1&1 - 1)
				z := c ^ (i&1 - 1)
				r |= x & y & z
			}
		}
		return r
	}
}

// FunnelShift is shf; the result is the upper word for left, the lower for
// right shifts.
func FunnelShift(left, wrap bool) Func {
	return func(a, b, c uint64) uint64 {
		pair := b<<32 | a&0xffffffff
		n := c & 0xffffffff
		if wrap {
			n &= 31
		} else {
			n = min(n, 32)
		}
		if left {
			return pair << n >> 32
		}
		return pair >> n
	}
}

// DotProduct4 is dp4a.
func DotProduct4(ta, tb ptx.Type) Func {
	return func(a, b, c uint64) uint64 {
		for i := range 4 {
			c += byteOf(ta, a, i) * byteOf(tb, b, i)
		}
		return c
	}
}

// DotProduct2 is dp2a, with the lower or upper bytes of b.
func DotProduct2(ta, tb ptx.Type, high bool) Func {
	first := 0
	if high {
		first = 2
	}
	return func(a, b, c uint64) uint64 {
		for i := range 2 {
			half := a >> (16 * i)
			if ta.Signed() {
				half = uint64(int16(half))
			} else {
				half = uint64(uint16(half))
			}
			c += half * byteOf(tb, b, first+i)
		}
		return c
	}
}

func byteOf(t ptx.Type, x uint64, i int) uint64 {
	if t.Signed() {
		return uint64(int8(x >> (8 * i)))
	}
	return uint64(uint8(x >> (8 * i)))
}

// PackField is the first half of bfi for n bits: where a field begins and how long it is, in one
// number (position | length << 8).
func PackField(n uint64) Func {
	return func(a, b, _ uint64) uint64 {
		pos, length := fieldOf(n, a, b)
		return pos | length<<8
	}
}

// InsertField is the second half: b with the field that PackField gave, c, replaced by a's bits.
func InsertField(n uint64) Func {
	return func(a, b, c uint64) uint64 {
		pos, length := c&0xff, c>>8&0xff
		if pos >= n {
			return b
		}
		mask := (uint64(1)<<min(length, 63) - 1 | -Bit(length >= 64)) << pos
		return b&^mask | a<<pos&mask
	}
}

// ExtendFrom is szext: sign- or zero-extension from bit b on.
func ExtendFrom(t ptx.Type, wrap bool) Func {
	return func(a, b, _ uint64) uint64 {
		n := b & math.MaxUint32
		if wrap {
			n &= 31
		}
		switch {
		case n >= 32:
			return a
		case n == 0:
			return 0
		case t == ptx.S32:
			return uint64(int64(a<<(64-n)) >> (64 - n))
		}
		return a & (1<<n - 1)
	}
}

// NthSetBit is fns: the position of the n-th set bit from a base.
func NthSetBit(mask, base, offset uint64) uint64 {
	step, left := 1, int32(offset)
	if left < 0 {
		step, left = -1, -left
	}
	if left == 0 {
		if base < 32 && mask>>base&1 != 0 {
			return base
		}
		return 0xffffffff
	}
	for at := int(base); at >= 0 && at < 32; at += step {
		if mask>>at&1 == 0 {
			continue
		}
		if left--; left == 0 {
			return uint64(at)
		}
	}
	return 0xffffffff
}

// BitMask is bmsk: a mask of b bits from position a.
func BitMask(wrap bool) Func {
	return func(a, b, _ uint64) uint64 {
		a, b = a&0xffffffff, b&0xffffffff
		if wrap {
			a, b = a&31, b&31
		} else {
			a, b = min(a, 32), min(b, 32)
		}
		return (1<<b - 1) << a
	}
}
