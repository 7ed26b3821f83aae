// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
)

func TestWholeMappings(t *testing.T) {
	const page = gpubackend.Granularity
	m := &mappings{}
	for _, at := range []uint64{0, 2, 3, 6} {
		m.mapped = append(m.mapped, mapped{addresses.Of(reserveBase+at*page, page), nil, 0})
	}
	for _, c := range []struct {
		from, pages uint64
		whole       bool
	}{
		{0, 1, true}, {2, 1, true}, {2, 2, true}, {3, 1, true}, {6, 1, true},
		{0, 2, false}, {1, 1, false}, {1, 3, false}, {2, 3, false}, {5, 2, false}, {7, 1, false}, {0, 0, false},
	} {
		if _, _, ok := m.whole(reserveBase+c.from*page, c.pages*page); ok != c.whole {
			t.Errorf("pages %d, %d: %v", c.from, c.pages, ok)
		}
	}
}

func TestAlignedRanges(t *testing.T) {
	const page = gpubackend.Granularity
	for _, c := range []struct {
		base, bytes uint64
		ok          bool
	}{
		{reserveBase, page, true},
		{reserveEnd - page, page, true},
		{reserveBase, reserveEnd - reserveBase, true},
		{reserveBase + 1, page, false},
		{reserveBase, page + 1, false},
		{reserveBase, 0, false},
		{reserveEnd - page, 2 * page, false},
		{reserveEnd, page, false},
		{reserveBase - page, page, false},
		{reserveBase, ^uint64(page - 1), false},
	} {
		if aligned(c.base, c.bytes) != c.ok {
			t.Errorf("%#x, %#x: %v", c.base, c.bytes, !c.ok)
		}
	}
}
