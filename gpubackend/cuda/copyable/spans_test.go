// SPDX-License-Identifier: Apache-2.0

package copyable

import (
	"math/rand/v2"
	"testing"
)

// TestSpans compares spans with a number for each address.
func TestSpans(t *testing.T) {
	const size = 64
	const readable, writable = 1, 2
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		var s Spans
		var oracle [size]int
		for range 30 {
			x := Span{Base: r.Uint64N(size - 8), Bytes: 1 + r.Uint64N(8), Writable: r.IntN(3) > 0}
			if r.IntN(4) == 0 && len(s) > 0 {
				x = s[r.IntN(len(s))]
				s.Remove(x.Base)
				clear(oracle[x.Base:x.end()])
			} else {
				for _, old := range s {
					if old.Base < x.end() && x.Base < old.end() {
						clear(oracle[old.Base:old.end()])
					}
				}
				s.Put(x)
				for i := x.Base; i < x.end(); i++ {
					oracle[i] = readable
					if x.Writable {
						oracle[i] = writable
					}
				}
			}
			from, n, write := r.Uint64N(size), 1+r.Uint64N(12), r.IntN(2) == 0
			want := from+n <= size
			for i := from; want && i < from+n; i++ {
				want = oracle[i] == writable || oracle[i] == readable && !write
			}
			if got := s.Cover(from, n, write); got != want {
				t.Fatalf("seed %d: cover(%d, %d, %t) = %t; %v", seed, from, n, write, got, s)
			}
		}
	}
}
