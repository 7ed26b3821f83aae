// SPDX-License-Identifier: Apache-2.0

package scalar

// A Func computes a result for one lane. Operands narrower than 64 bits come
// zero-extended, predicates as 0 or 1; excess bits of the result are dropped.
type Func func(a, b, c uint64) uint64

// Identity returns its first operand.
func Identity(a, _, _ uint64) uint64 { return a }

// Bit is 1 for true.
func Bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
