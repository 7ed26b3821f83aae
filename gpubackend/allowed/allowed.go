// SPDX-License-Identifier: Apache-2.0

// Package allowed has sets of the flags, attributes and other numbers that a guest may pass to the
// host's driver. A number outside its set never gets there: a later driver may give it a meaning
// that reaches out of the guest, as the flags for core dumps do.
package allowed

// Set is either any combination of some bits, or one of some numbers below 64.
type Set struct{ bits, numbers uint64 }

// Has says whether a number is in the set.
func (s Set) Has(n uint64) bool {
	if s.numbers != 0 {
		return n < 64 && s.numbers>>n&1 != 0
	}
	return n&^s.bits == 0
}
