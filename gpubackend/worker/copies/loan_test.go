// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"math/rand/v2"
	"testing"
)

// TestLoansAgainstAList: find and take find what a look at every loan finds.
func TestLoansAgainstAList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s loans
	var all []*loan
	for range 20_000 {
		address, bytes := random.Uint64N(4096), 1+random.Uint64N(64)
		switch random.IntN(3) {
		case 0:
			l := &loan{base: address, bytes: bytes}
			free := true
			for _, o := range all {
				free = free && (o.end() <= l.base || l.end() <= o.base)
			}
			if s.insert(l) != free {
				t.Fatalf("insert %#x, %#x bytes: want %v", address, bytes, free)
			}
			if free {
				all = append(all, l)
			}
		case 1:
			var want *loan
			for _, o := range all {
				if o.base <= address && address < o.end() {
					want = o
				}
			}
			if got := s.find(address); got != want {
				t.Fatalf("find %#x: %+v, want %+v", address, got, want)
			}
		case 2:
			got := s.take(address, bytes)
			kept := all[:0]
			for _, o := range all {
				if o.end() <= address || address+bytes <= o.base {
					kept = append(kept, o)
				}
			}
			if len(got)+len(kept) != len(all) || len(s.list) != len(kept) {
				t.Fatalf("take %#x, %#x bytes: %d of %d, %d left", address, bytes, len(got),
					len(all), len(s.list))
			}
			all = kept
		}
	}
}
