// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// widen extends the low bits of x, a value of integer type t, to 64 bits.
func widen(t ptx.Type, x uint64) uint64 {
	switch t {
	case ptx.U8, ptx.B8:
		return uint64(uint8(x))
	case ptx.S8:
		return uint64(int8(x))
	case ptx.U16, ptx.B16:
		return uint64(uint16(x))
	case ptx.S16:
		return uint64(int16(x))
	case ptx.U32, ptx.B32:
		return uint64(uint32(x))
	case ptx.S32:
		return uint64(int32(x))
	}
	return x
}

// integerBounds are the least and greatest value of integer type t.
func integerBounds(t ptx.Type) (least int64, greatest uint64) {
	n := uint(t.Size() * 8)
	if t.Signed() {
		return -1 << (n - 1), 1<<(n-1) - 1
	}
	return 0, ^uint64(0) >> (64 - n)
}

// saturate32 clamps the exact value x to signed 32 bits.
func saturate32(x int64) uint64 { return uint64(max(min(x, 1<<31-1), -1<<31)) }

// integerBinary makes the scalar function of a two-operand integer operation.
func integerBinary(op string, t ptx.Type) scalarFunc {
	w := func(x uint64) uint64 { return widen(t, x) }
	signed := t.Signed()
	switch op {
	case "add":
		return func(a, b, _ uint64) uint64 { return a + b }
	case "sub":
		return func(a, b, _ uint64) uint64 { return a - b }
	case "mul.lo":
		return func(a, b, _ uint64) uint64 { return a * b }
	case "mul.wide":
		return func(a, b, _ uint64) uint64 { return w(a) * w(b) }
	case "mul.hi":
		return mulHigh(t)
	case "div":
		return divide(t)
	case "rem":
		return remainder(t)
	case "min":
		if signed {
			return func(a, b, _ uint64) uint64 { return uint64(min(int64(w(a)), int64(w(b)))) }
		}
		return func(a, b, _ uint64) uint64 { return min(w(a), w(b)) }
	case "max":
		if signed {
			return func(a, b, _ uint64) uint64 { return uint64(max(int64(w(a)), int64(w(b)))) }
		}
		return func(a, b, _ uint64) uint64 { return max(w(a), w(b)) }
	case "and":
		return func(a, b, _ uint64) uint64 { return a & b }
	case "or":
		return func(a, b, _ uint64) uint64 { return a | b }
	case "xor":
		return func(a, b, _ uint64) uint64 { return a ^ b }
	case "shl":
		return func(a, b, _ uint64) uint64 { return a << min(uint32(b), 64) }
	case "shr":
		if signed {
			return func(a, b, _ uint64) uint64 { return uint64(int64(w(a)) >> min(uint32(b), 63)) }
		}
		return func(a, b, _ uint64) uint64 { return w(a) >> min(uint32(b), 64) }
	}
	return nil
}

// mulHigh is the upper half of the product.
func mulHigh(t ptx.Type) scalarFunc {
	n := uint(t.Size() * 8)
	switch {
	case t == ptx.U64:
		return func(a, b, _ uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi
		}
	case t == ptx.S64:
		return func(a, b, _ uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
		}
	case t.Signed():
		return func(a, b, _ uint64) uint64 { return uint64(int64(widen(t, a)*widen(t, b)) >> n) }
	}
	return func(a, b, _ uint64) uint64 { return widen(t, a) * widen(t, b) >> n }
}

// divide gives all ones for a division by zero, as GPUs do.
func divide(t ptx.Type) scalarFunc {
	return func(a, b, _ uint64) uint64 {
		a, b = widen(t, a), widen(t, b)
		switch {
		case b == 0:
			return ^uint64(0)
		case !t.Signed():
			return a / b
		case int64(b) == -1:
			return -a
		}
		return uint64(int64(a) / int64(b))
	}
}

func remainder(t ptx.Type) scalarFunc {
	return func(a, b, _ uint64) uint64 {
		a, b = widen(t, a), widen(t, b)
		switch {
		case b == 0:
			return a
		case !t.Signed():
			return a % b
		case int64(b) == -1:
			return 0
		}
		return uint64(int64(a) % int64(b))
	}
}

// integerUnary makes the scalar function of a one-operand integer operation.
func integerUnary(op string, t ptx.Type) scalarFunc {
	n := uint64(t.Size() * 8)
	switch op {
	case "not":
		return func(a, _, _ uint64) uint64 { return ^a }
	case "neg":
		return func(a, _, _ uint64) uint64 { return -a }
	case "cnot":
		return func(a, _, _ uint64) uint64 { return boolBit(a == 0) }
	case "abs":
		return func(a, _, _ uint64) uint64 {
			if a = widen(t, a); int64(a) < 0 {
				return -a
			}
			return a
		}
	case "popc":
		return func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }
	case "clz":
		return func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) - (64 - n) }
	case "brev":
		return func(a, _, _ uint64) uint64 { return bits.Reverse64(a) >> (64 - n) }
	}
	return nil
}

func boolBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// findBit is bfind: the position of the most significant bit that isn't a sign.
func findBit(t ptx.Type, shiftAmount bool) scalarFunc {
	top := uint64(t.Size()*8 - 1)
	return func(a, _, _ uint64) uint64 {
		a = widen(t, a)
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

// extractField is bfe.
func extractField(t ptx.Type) scalarFunc {
	n := uint64(t.Size() * 8)
	return func(a, b, c uint64) uint64 {
		pos, length := fieldOf(n, b, c)
		a = widen(t, a)
		if !t.Signed() {
			if pos >= n || length == 0 {
				return 0
			}
			return a >> pos & (1<<min(length, 63) - 1 | -boolBit(length >= 64))
		}
		if length == 0 {
			return 0
		}
		sign := a >> min(pos+length-1, n-1) & 1
		field := uint64(0)
		if pos < n {
			field = a >> pos & (1<<min(length, 63) - 1 | -boolBit(length >= 64))
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

// permute is prmt without a mode.
func permute(a, b, c uint64) uint64 {
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

// permuteModes gives the selectors of prmt's special modes for c & 3.
var permuteModes = map[string][4]uint64{
	"f4e":  {0x3210, 0x4321, 0x5432, 0x6543},
	"b4e":  {0x5670, 0x6701, 0x7012, 0x0123},
	"rc8":  {0x0000, 0x1111, 0x2222, 0x3333},
	"ecl":  {0x3210, 0x3211, 0x3222, 0x3333},
	"ecr":  {0x0000, 0x1110, 0x2210, 0x3210},
	"rc16": {0x1010, 0x3232, 0x1010, 0x3232},
}

// logic3 is lop3 with a truth table.
func logic3(table uint64) scalarFunc {
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

// funnelShift is shf; the result is the upper word for left, the lower for
// right shifts.
func funnelShift(left, wrap bool) scalarFunc {
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

// dotProduct4 is dp4a.
func dotProduct4(ta, tb ptx.Type) scalarFunc {
	return func(a, b, c uint64) uint64 {
		for i := range 4 {
			c += byteOf(ta, a, i) * byteOf(tb, b, i)
		}
		return c
	}
}

// dotProduct2 is dp2a, with the lower or upper bytes of b.
func dotProduct2(ta, tb ptx.Type, high bool) scalarFunc {
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
