// SPDX-License-Identifier: Apache-2.0

package scalar

import "github.com/paracuda/paracuda/gpubackend/soft/ptx"

// Comparisons are the names of comparison operators; those for floating-point
// types that are true for NaN end in u.
var Comparisons = []string{"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
	"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}

// UnsignedNames maps the unsigned spellings to the plain ones.
var UnsignedNames = map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}

// Compare is a comparison, nil if there is none of that name.
func Compare(op string, t ptx.Type, ftz bool) Func {
	if t.Float() {
		return compareFloat(op, t, ftz)
	}
	unsigned := !t.Signed()
	if plain, ok := UnsignedNames[op]; ok {
		op, unsigned = plain, true
	}
	less := func(a, b uint64) bool { return int64(Widen(t, a)) < int64(Widen(t, b)) }
	if unsigned {
		less = func(a, b uint64) bool { return Widen(t, a) < Widen(t, b) }
	}
	switch op {
	case "eq":
		return func(a, b, _ uint64) uint64 { return Bit(Widen(t, a) == Widen(t, b)) }
	case "ne":
		return func(a, b, _ uint64) uint64 { return Bit(Widen(t, a) != Widen(t, b)) }
	case "lt":
		return func(a, b, _ uint64) uint64 { return Bit(less(a, b)) }
	case "le":
		return func(a, b, _ uint64) uint64 { return Bit(!less(b, a)) }
	case "gt":
		return func(a, b, _ uint64) uint64 { return Bit(less(b, a)) }
	case "ge":
		return func(a, b, _ uint64) uint64 { return Bit(!less(a, b)) }
	}
	return nil
}

func compareFloat(op string, t ptx.Type, ftz bool) Func {
	fm := FormatOf(t)
	value := fm.Value
	if t == ptx.F64 {
		value = ToF64
	}
	if t == ptx.F32 {
		value = func(a uint64) float64 { return float64(toF32(a)) }
		if ftz {
			value = func(a uint64) float64 { return float64(toF32(Flush32(a))) }
		}
	}
	var test func(x, y float64) bool
	switch op {
	case "eq":
		test = func(x, y float64) bool { return x == y }
	case "ne":
		test = func(x, y float64) bool { return x < y || x > y }
	case "lt":
		test = func(x, y float64) bool { return x < y }
	case "le":
		test = func(x, y float64) bool { return x <= y }
	case "gt":
		test = func(x, y float64) bool { return x > y }
	case "ge":
		test = func(x, y float64) bool { return x >= y }
	case "equ":
		test = func(x, y float64) bool { return !(x < y || x > y) }
	case "neu":
		test = func(x, y float64) bool { return x != y }
	case "ltu":
		test = func(x, y float64) bool { return !(x >= y) }
	case "leu":
		test = func(x, y float64) bool { return !(x > y) }
	case "gtu":
		test = func(x, y float64) bool { return !(x <= y) }
	case "geu":
		test = func(x, y float64) bool { return !(x < y) }
	case "num":
		test = func(x, y float64) bool { return x == x && y == y }
	case "nan":
		test = func(x, y float64) bool { return x != x || y != y }
	default:
		return nil
	}
	return func(a, b, _ uint64) uint64 { return Bit(test(value(a), value(b))) }
}

// ElementOf is the type of the halves of a packed type.
func ElementOf(t ptx.Type) ptx.Type {
	if t == ptx.F16x2 {
		return ptx.F16
	}
	return ptx.BF16
}

// SelectIf is selp: a if c is true, else b.
func SelectIf(a, b, c uint64) uint64 {
	if c != 0 {
		return a
	}
	return b
}

// SelectBySign is slct: a if c, of type t, is not negative, else b.
func SelectBySign(t ptx.Type, ftz bool) Func {
	positive := func(c uint64) bool { return int32(c) >= 0 }
	if t == ptx.F32 {
		positive = func(c uint64) bool {
			if ftz {
				c = Flush32(c)
			}
			return toF32(c) >= 0
		}
	}
	return func(a, b, c uint64) uint64 {
		if positive(c) {
			return a
		}
		return b
	}
}
