// SPDX-License-Identifier: Apache-2.0

package scalar

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// Widen extends the low bits of x, a value of integer type t, to 64 bits.
func Widen(t ptx.Type, x uint64) uint64 {
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

// Saturate32 clamps the exact value x to signed 32 bits.
func Saturate32(x int64) uint64 { return uint64(max(min(x, 1<<31-1), -1<<31)) }

// Integer is an operation on two integers, nil if there is none of that name.
func Integer(op string, t ptx.Type) Func {
	w := func(x uint64) uint64 { return Widen(t, x) }
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
func mulHigh(t ptx.Type) Func {
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
		return func(a, b, _ uint64) uint64 { return uint64(int64(Widen(t, a)*Widen(t, b)) >> n) }
	}
	return func(a, b, _ uint64) uint64 { return Widen(t, a) * Widen(t, b) >> n }
}

// divide gives all ones for a division by zero, as GPUs do.
func divide(t ptx.Type) Func {
	return func(a, b, _ uint64) uint64 {
		a, b = Widen(t, a), Widen(t, b)
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

func remainder(t ptx.Type) Func {
	return func(a, b, _ uint64) uint64 {
		a, b = Widen(t, a), Widen(t, b)
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

// IntegerUnary makes the scalar function of a one-operand integer operation.
func IntegerUnary(op string, t ptx.Type) Func {
	n := uint64(t.Size() * 8)
	switch op {
	case "not":
		return func(a, _, _ uint64) uint64 { return ^a }
	case "neg":
		return func(a, _, _ uint64) uint64 { return -a }
	case "cnot":
		return func(a, _, _ uint64) uint64 { return Bit(a == 0) }
	case "abs":
		return func(a, _, _ uint64) uint64 {
			if a = Widen(t, a); int64(a) < 0 {
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

// Saturating is add or sub of signed words, clamped to their range.
func Saturating(op string) Func {
	if op == "add" {
		return func(a, b, _ uint64) uint64 { return Saturate32(int64(int32(a)) + int64(int32(b))) }
	}
	return func(a, b, _ uint64) uint64 { return Saturate32(int64(int32(a)) - int64(int32(b))) }
}

// WideType is the integer type of twice the size.
func WideType(t ptx.Type) ptx.Type {
	switch t {
	case ptx.U16:
		return ptx.U32
	case ptx.S16:
		return ptx.S32
	case ptx.U32:
		return ptx.U64
	case ptx.S32:
		return ptx.S64
	}
	return ptx.NoType
}

// Product24 is mul24: the product of the lower 24 bits, or its upper half.
func Product24(t ptx.Type, high bool) Func {
	return func(a, b, _ uint64) uint64 {
		if t == ptx.S32 {
			a, b = uint64(int64(a<<40)>>40), uint64(int64(b<<40)>>40)
		} else {
			a, b = a&0xffffff, b&0xffffff
		}
		if high {
			return a * b >> 16
		}
		return a * b
	}
}

// AddTo adds c to the product mul of a and b.
func AddTo(mul Func) Func {
	return func(a, b, c uint64) uint64 { return mul(a, b, 0) + c }
}

// SaturatingAddTo is AddTo in signed 32 bits.
func SaturatingAddTo(mul Func) Func {
	return func(a, b, c uint64) uint64 {
		return Saturate32(int64(mul(a, b, 0)) + int64(int32(c)))
	}
}

// AbsoluteDifference is sad: c and the difference of a and b.
func AbsoluteDifference(t ptx.Type) Func {
	return func(a, b, c uint64) uint64 {
		a, b = Widen(t, a), Widen(t, b)
		if t.Signed() && int64(a) < int64(b) || !t.Signed() && a < b {
			return c + b - a
		}
		return c + a - b
	}
}

// IsInteger tells whether t is an integer of 16, 32 or 64 bits; bits counts .bN.
func IsInteger(t ptx.Type, bits bool) bool {
	switch t {
	case ptx.U16, ptx.S16, ptx.U32, ptx.S32, ptx.U64, ptx.S64:
		return true
	case ptx.B16, ptx.B32, ptx.B64:
		return bits
	}
	return false
}
