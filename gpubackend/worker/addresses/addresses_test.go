// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/proclimit"
)

func TestPlaces(t *testing.T) {
	p := PlacesFor(5)
	told := 0
	p.WhenFull(func(most int) { told += most })
	for i, tt := range []struct {
		n    int
		want bool
		used int
	}{{3, true, 3}, {3, false, 3}, {2, true, 5}, {1, false, 5}} {
		if got := p.Take(tt.n); got != tt.want || p.Used() != tt.used {
			t.Errorf("step %d: %v, %d used", i, got, p.Used())
		}
	}
	if told != 5 {
		t.Errorf("told %d, want once the bound", told)
	}
	if p.Give(5); p.Used() != 0 || !p.Take(5) {
		t.Error("what was given back is lost")
	}
	if most := NewPlaces().Most(); most <= 0 || most >= proclimit.Mappings() {
		t.Errorf("%d of %d mappings", most, proclimit.Mappings())
	}
}

func TestRangesInOthers(t *testing.T) {
	list := []Range{{0x1000, 0x1000}, {0x4000, 0x2000}}
	for _, tt := range []struct {
		r    Range
		want bool
	}{
		{Range{0x1000, 0x1000}, true}, {Range{0x4800, 0x10}, true}, {Range{0x5000, 0x1000}, true},
		{Range{0x6000, 0}, true},
		{Range{0xfff, 2}, false}, {Range{0x1800, 0x1000}, false}, {Range{0x2001, 0}, false},
		{Range{0x4000, 0x2001}, false},
		{Range{0x4000, ^uint64(0)}, false}, {Range{^uint64(0), 1}, false},
	} {
		if got := tt.r.In(list); got != tt.want {
			t.Errorf("%#x: %v", tt.r, got)
		}
	}
}
