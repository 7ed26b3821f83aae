// SPDX-License-Identifier: Apache-2.0

package object

import (
	"math/rand/v2"
	"testing"
)

// slowTable is a table as one would write it without a thought for speed.
type slowTable struct {
	handles map[uint64]row
	order   []uint64
}

func (s *slowTable) remove(h uint64) {
	e, ok := s.handles[h]
	if !ok {
		return
	}
	delete(s.handles, h)
	if e.kind != Context && e.kind != Module && e.kind != Library && e.kind != Kernel {
		return
	}
	for child, c := range s.handles {
		if c.parent == h {
			s.remove(child)
		}
	}
}

func TestAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table Table
	slow := slowTable{handles: map[uint64]row{}}
	for step := range 20000 {
		if len(slow.order) == 0 || r.IntN(3) > 0 {
			kind, parent := Kind(1+r.IntN(7)), uint64(0)
			if len(slow.order) > 0 && r.IntN(2) == 0 {
				parent = slow.order[r.IntN(len(slow.order))]
			}
			h := table.Add(kind, uint64(step), parent)
			if _, twice := slow.handles[h]; h <= 2 || twice {
				t.Fatalf("step %d: handle %#x", step, h)
			}
			slow.handles[h] = row{kind: kind, native: uint64(step), parent: parent}
			slow.order = append(slow.order, h)
		} else {
			h := slow.order[r.IntN(len(slow.order))]
			table.Remove(h)
			slow.remove(h)
		}
		if table.Len() != len(slow.handles) {
			t.Fatalf("step %d: %d objects, want %d", step, table.Len(), len(slow.handles))
		}
	}
	for kind := Context; kind <= Kernel; kind++ {
		want := 0
		for _, e := range slow.handles {
			if e.kind == kind {
				want++
			}
		}
		if got := table.Count(kind); got != want {
			t.Errorf("%d objects of kind %d, want %d", got, kind, want)
		}
	}
	for _, h := range slow.order {
		e, alive := slow.handles[h]
		for kind := Context; kind <= Kernel; kind++ {
			native, ok := table.Lookup(kind, h)
			if ok != (alive && e.kind == kind) || ok && native != e.native {
				t.Fatalf("Lookup(%d, %#x) = %d, %v", kind, h, native, ok)
			}
		}
	}
}

func TestForgedHandles(t *testing.T) {
	var table Table
	h := table.Add(Stream, 7, 0)
	for _, forged := range []uint64{0, 1, 2, h + 1, h - 1, h &^ (0xffff << 48),
		h ^ 1<<generationShift, ^uint64(0), 1 << 63, indexMask} {
		if _, ok := table.Lookup(Stream, forged); ok {
			t.Errorf("forged handle %#x found", forged)
		}
	}
	table.Remove(h)
	table.Remove(h)
	again := table.Add(Stream, 8, 0)
	if _, ok := table.Lookup(Stream, h); ok || again == h {
		t.Error("a stale handle is good again")
	}
}

func TestIntern(t *testing.T) {
	var table Table
	a := table.Intern(Function, 5, 0)
	if b := table.Intern(Function, 5, 0); a != b {
		t.Errorf("the same object has handles %#x and %#x", a, b)
	}
	if c := table.Intern(Kernel, 5, 0); c == a {
		t.Error("objects of two kinds share a handle")
	}
	n := 0
	for range table.All(Function) {
		n++
	}
	if n != 1 {
		t.Errorf("%d functions", n)
	}
}

// TestAllFindsAll among others, before and behind them, also when the loop removes some.
func TestAllFindsAll(t *testing.T) {
	for _, remove := range []bool{false, true} {
		var table Table
		want := map[uint64]uint64{}
		for i := range uint64(1000) {
			if i%7 == 3 {
				want[table.Add(Stream, i, 0)] = i
			} else {
				table.Add(Event, i, 0)
			}
		}
		for h, native := range table.All(Stream) {
			if want[h] != native {
				t.Fatalf("%#x is %d, want %d", h, native, want[h])
			}
			delete(want, h)
			if remove {
				table.Remove(h)
			}
		}
		if len(want) > 0 {
			t.Errorf("removing %v: %d objects are left out", remove, len(want))
		}
	}
	var table Table
	for range table.All(Stream) {
		t.Error("there is none")
	}
}

// BenchmarkAll finds the one context of a program that has many events.
func BenchmarkAll(b *testing.B) {
	var table Table
	table.Add(Context, 1, 0)
	for i := range uint64(100_000) {
		table.Add(Event, i, 0)
	}
	for b.Loop() {
		for range table.All(Context) {
		}
	}
}

// TestReplace: the object keeps its handle, kind and parent; what isn't there stays so.
func TestReplace(t *testing.T) {
	var table Table
	parent := table.Add(Context, 1, 0)
	h := table.Add(Stream, 2, parent)
	table.Replace(h, 3)
	if native, ok := table.Lookup(Stream, h); !ok || native != 3 || table.Parent(h) != parent {
		t.Errorf("it is %d, %t, in %#x", native, ok, table.Parent(h))
	}
	table.Remove(h)
	table.Replace(h, 4)
	if table.Has(h) || table.Len() != 1 {
		t.Error("it is there again")
	}
}
