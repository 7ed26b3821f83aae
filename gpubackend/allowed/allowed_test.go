// SPDX-License-Identifier: Apache-2.0

package allowed

import "testing"

func TestHas(t *testing.T) {
	bits, numbers := Set{bits: 0x85}, Set{numbers: 1<<3 | 1<<63}
	for _, c := range []struct {
		set  Set
		n    uint64
		want bool
	}{
		{bits, 0, true}, {bits, 1, true}, {bits, 0x85, true}, {bits, 0x84, true},
		{bits, 2, false}, {bits, 0x86, false}, {bits, 1 << 63, false}, {bits, ^uint64(0), false},
		{Set{}, 0, true}, {Set{}, 1, false},
		{numbers, 3, true}, {numbers, 63, true},
		{numbers, 0, false}, {numbers, 2, false}, {numbers, 64, false}, {numbers, 67, false},
		{numbers, 1<<32 | 3, false}, {numbers, ^uint64(0), false},
	} {
		if got := c.set.Has(c.n); got != c.want {
			t.Errorf("%+v has %#x: %v, want %v", c.set, c.n, got, c.want)
		}
	}
}
