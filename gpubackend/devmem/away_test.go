// SPDX-License-Identifier: Apache-2.0

package devmem

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// TestAway: what left counts for nothing, and returns to its addresses, or stays away.
func TestAway(t *testing.T) {
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	process := ledger.NewProcess()
	process.Join(page, 0)
	h, b := newTestHeap(t, 1<<30, 1<<30)
	h.Count(process.Account(1))
	small, large := mustAlloc(t, h, 512), mustAlloc(t, h, 64<<20)
	taken := page.GPU(1).Taken
	if err := h.Leave(small + 512); !errors.Is(err, ErrNotAllocated) {
		t.Errorf("leave the middle of a segment: %v", err)
	}
	for _, p := range h.Segments() {
		if err := h.Leave(p.Address); err != nil {
			t.Fatal(err)
		}
	}
	if taken() != 0 || len(b.segments) != 0 || h.Used() != 0 || len(h.Segments()) != 0 {
		t.Errorf("%d bytes are taken, %d segments mapped, %d used", taken(), len(b.segments),
			h.Used())
	}
	if _, size, ok := h.Find(large); !ok || size != 64<<20 {
		t.Error("an allocation is lost")
	}
	page.SetBound(60 << 20)
	if err := h.Return(large); !errors.Is(err, ErrOutOfMemory) || taken() != 0 {
		t.Errorf("return beyond the bound: %v, %d bytes are taken", err, taken())
	}
	page.SetBound(0)
	b.refuse = 64 << 20
	if err := h.Return(large); !errors.Is(err, ErrOutOfMemory) || taken() != 0 {
		t.Errorf("return what the backing refuses: %v, %d bytes are taken", err, taken())
	}
	b.refuse = 0
	if err := h.Return(large); err != nil || b.segments[large] != 64<<20 || taken() != 64<<20 {
		t.Errorf("return: %v, %d bytes are taken", err, taken())
	}
	if err := h.Return(large); !errors.Is(err, ErrNotAllocated) {
		t.Errorf("return twice: %v", err)
	}
	if h.Close(); taken() != 0 || len(b.segments) != 0 {
		t.Errorf("closed with a segment away: %d bytes are taken, %d mapped", taken(),
			len(b.segments))
	}
}

// TestAllOrNone: of several segments, none leaves or returns if one can't.
func TestAllOrNone(t *testing.T) {
	h, b := newTestHeap(t, 1<<30, 1<<30)
	x, y := mustAlloc(t, h, 20<<20), mustAlloc(t, h, 40<<20)
	of := func(addr uint64) *Heap {
		if addr < Base || addr >= Base+1<<30 {
			return nil
		}
		return h
	}
	for _, bad := range [][]uint64{{x, x}, {y, x}, {x, y + 512}, {x, y, 1 << 60}} {
		if err := LeaveAll(of, bad); !errors.Is(err, ErrNotAllocated) || b.mapped() != 60<<20 {
			t.Errorf("%#x leave: %v, %d bytes are mapped", bad, err, b.mapped())
		}
	}
	if err := LeaveAll(of, []uint64{x, y}); err != nil || b.mapped() != 0 {
		t.Fatalf("%v, %d bytes are mapped", err, b.mapped())
	}
	b.refuse = 40 << 20
	if err := ReturnAll(of, []uint64{x, y}); !errors.Is(err, ErrOutOfMemory) || b.mapped() != 0 {
		t.Errorf("the second is refused: %v, %d bytes are mapped", err, b.mapped())
	}
	b.refuse = 0
	if err := ReturnAll(of, []uint64{x, 1 << 60}); err == nil || b.mapped() != 0 {
		t.Errorf("the second is no segment: %v, %d bytes are mapped", err, b.mapped())
	}
	if err := ReturnAll(of, []uint64{x, y}); err != nil || b.mapped() != 60<<20 {
		t.Errorf("%v, %d bytes are mapped", err, b.mapped())
	}
}
