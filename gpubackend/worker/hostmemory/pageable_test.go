// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
)

// TestPageablesAgainstOracle puts random mappings over one another and compares with one entry for
// each page.
func TestPageablesAgainstOracle(t *testing.T) {
	const pages = 64
	r := rand.New(rand.NewPCG(7, 8))
	var list spans
	var slow [pages]*shown
	used := [pages]bool{}
	for step := range 5000 {
		base := r.Uint64N(pages)
		m, bytes := &shown{m: &maps.Map{ID: uint32(step)}}, 1+r.Uint64N(pages-base)
		gaps := list.gaps(addresses.Of(base, bytes))
		for _, g := range gaps {
			for p := g.Base; p < g.End(); p++ {
				if used[p] || p < base || p >= base+bytes {
					t.Fatalf("step %d: page %d is no gap", step, p)
				}
				used[p] = true
			}
		}
		before := map[*shown]bool{}
		for p := base; p < base+bytes; p++ {
			if !used[p] {
				t.Fatalf("step %d: the gap at page %d was not found", step, p)
			}
			before[slow[p]] = true
			slow[p] = m
		}
		delete(before, nil)
		m.bytes = bytes
		for _, old := range list.place(span{addresses.Of(base, bytes), m}) {
			if !before[old] {
				t.Fatalf("step %d: mapping %d is gone, which it wasn't", step, old.m.ID)
			}
			delete(before, old)
		}
		count := map[*shown]uint64{}
		for _, of := range slow {
			count[of]++
		}
		for old := range before {
			if count[old] == 0 {
				t.Fatalf("step %d: nothing is left of mapping %d", step, old.m.ID)
			}
		}
		at := uint64(0)
		for _, s := range list {
			for p := s.Base; p < s.End(); p++ {
				if p < at || slow[p] != s.shown {
					t.Fatalf("step %d: page %d is in the wrong span", step, p)
				}
			}
			if at = s.End(); s.Bytes == 0 || s.shown.bytes != count[s.shown] {
				t.Fatalf("step %d: %d bytes of mapping %d are shown, want %d", step, s.shown.bytes,
					s.shown.m.ID, count[s.shown])
			}
		}
	}
}
