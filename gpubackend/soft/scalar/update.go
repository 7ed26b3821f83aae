// SPDX-License-Identifier: Apache-2.0

package scalar

import "github.com/paracuda/paracuda/gpubackend/soft/ptx"

// Update is the function by which an atomic operation changes a value, its first operand; nil if
// there is none for the type. A value that stays as it is needs no write.
func Update(op string, t ptx.Type) Func {
	switch op {
	case "cas":
		if t == ptx.B16 || t == ptx.B32 || t == ptx.B64 || t == ptx.U32 || t == ptx.U64 ||
			t == ptx.S32 {
			return func(old, b, c uint64) uint64 {
				if Widen(t, old) == Widen(t, b) {
					return c
				}
				return old
			}
		}
	case "exch":
		return func(_, b, _ uint64) uint64 { return b }
	case "inc":
		if t == ptx.U32 {
			return func(old, b, _ uint64) uint64 {
				if old >= b&0xffffffff {
					return 0
				}
				return old + 1
			}
		}
	case "dec":
		if t == ptx.U32 {
			return func(old, b, _ uint64) uint64 {
				if b &= 0xffffffff; old == 0 || old > b {
					return b
				}
				return old - 1
			}
		}
	case "add", "min", "max":
		if t.Float() {
			style := Style{Type: t}
			return style.Apply(Float(op, style))
		}
		if IsInteger(t, false) {
			return Integer(op, t)
		}
	case "and", "or", "xor":
		if t == ptx.B32 || t == ptx.B64 {
			return Integer(op, t)
		}
	}
	return nil
}
