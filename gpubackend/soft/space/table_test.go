// SPDX-License-Identifier: Apache-2.0

package space

import "testing"

// TestTable compares lookups with an array of all addresses.
func TestTable(t *testing.T) {
	tab := &table{}
	var slow [100]uint8 // bits: 1 is readable, 2 is writable
	list := []region{
		{10, 20, 1, 1}, {40, 50, 1, 0}, {20, 30, 2, 2}, {50, 60, 1, 1}, {90, 100, 1, 1},
		{0, 5, 1, 0},
	}
	const gone = 90
	for _, r := range list {
		tab = tab.with(r)
	}
	tab = tab.without(gone)
	for _, r := range list {
		if r.base == gone {
			continue
		}
		for a := r.base; a < r.end; a++ {
			slow[a] = 1
			if r.write != 0 {
				slow[a] = 3
			}
		}
	}
	for a := range uint64(90) {
		if r, found := tab.lookup(a); found != (slow[a] != 0) ||
			found && (a < r.base || a >= r.end) {
			t.Errorf("lookup(%d): %v, %v", a, r, found)
		}
		for n := uint64(1); a+n <= 100; n++ {
			readable, writable, touched := true, true, false
			for _, s := range slow[a : a+n] {
				readable, writable, touched = readable && s&1 != 0, writable && s&2 != 0, touched ||
					s != 0
			}
			if tab.covers(a, n, false, everyone) != readable ||
				tab.covers(a, n, true, everyone) != writable || tab.overlaps(a, a+n) != touched {
				t.Errorf("range %d, %d", a, n)
			}
		}
	}
	if tab.covers(1<<64-10, 20, false, everyone) {
		t.Error("covers a range that wraps")
	}
}
