// SPDX-License-Identifier: Apache-2.0

package kernelheap

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// TestHeapCounts: each allocation takes some of the host's memory for what is known of it.
func TestHeapCounts(t *testing.T) {
	host := budget.New(3 * allocationBytes)
	h := New(1<<20, 1<<20, host)
	first := h.Malloc(16)
	if first == 0 || h.Malloc(16) == 0 || h.Malloc(16) == 0 || h.Malloc(16) != 0 {
		t.Errorf("not three allocations of three: %d bytes are counted", host.Used())
	}
	if !h.Free(first) || h.Malloc(16) == 0 || h.Free(first+8) {
		t.Error("no allocation in place of one that was freed")
	}
	h.Close()
	if host.Used() != 0 {
		t.Errorf("%d bytes are counted in the end", host.Used())
	}
}

// TestHeapJoins: what is freed, in any order, is one range again, and nothing is handed out twice.
func TestHeapJoins(t *testing.T) {
	const size = 1 << 10
	h := New(1<<20, size, budget.New(1<<20))
	seen := map[uint64]bool{}
	var all []uint64
	for at := h.Malloc(1); at != 0; at = h.Malloc(1) {
		if at%align != 0 || at < 1<<20 || at >= 1<<20+size || seen[at] {
			t.Fatalf("%#x was given out", at)
		}
		seen[at], all = true, append(all, at)
	}
	if len(all) != size/align {
		t.Errorf("%d allocations, want %d", len(all), size/align)
	}
	for _, first := range []int{1, 0} { // every second one, then those between
		for i := first; i < len(all); i += 2 {
			if !h.Free(all[i]) {
				t.Errorf("%#x can't be freed", all[i])
			}
		}
	}
	if whole := h.Malloc(size); whole != 1<<20 {
		t.Errorf("the whole is at %#x", whole)
	}
	for _, bytes := range []uint64{0, 1<<62 + 1, 1 << 63} {
		if at := h.Malloc(bytes); at != 0 {
			t.Errorf("%d bytes at %#x", bytes, at)
		}
	}
}
