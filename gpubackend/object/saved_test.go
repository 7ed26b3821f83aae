// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// made is an object as whoever makes it again knows it.
type made struct {
	handle, parent uint64
	kind           Kind
}

// change does the same random things with a table each time that r is the same. It returns the
// handles that the table gave out.
func change(t *Table, r *rand.Rand, steps int, living map[uint64]made) (given []uint64) {
	order := slices.Sorted(maps.Keys(living))
	for range steps {
		if len(order) == 0 || r.IntN(5) > 2 {
			m := made{kind: Kind(1 + r.IntN(int(kinds)-1))}
			if len(order) > 0 && r.IntN(2) == 0 {
				m.parent = order[r.IntN(len(order))]
				if depth(t, m.parent) > 20 {
					m.parent = 0
				}
			}
			m.handle = t.Add(m.kind, r.Uint64(), m.parent)
			order, given = append(order, m.handle), append(given, m.handle)
			living[m.handle] = m
		} else {
			t.Remove(order[r.IntN(len(order))])
		}
		order = slices.DeleteFunc(order, func(h uint64) bool { return t.find(h) == nil })
	}
	maps.DeleteFunc(living, func(h uint64, _ made) bool { return t.find(h) == nil })
	return given
}

func depth(t *Table, h uint64) (n int) {
	for ; h != 0; n++ {
		h = t.Parent(h)
	}
	return n
}

func save(t *testing.T, table *Table) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := table.Save(&b); err != nil {
		t.Fatal(err)
	}
	if uint64(b.Len()) != table.SavedBytes() {
		t.Fatalf("%d bytes, it said %d", b.Len(), table.SavedBytes())
	}
	return b.Bytes()
}

// TestSavedTableGoesOn: a table that was restored, its objects made again in any order, one or
// several at a time, is saved as the first one was, and gives out the same handles ever after.
func TestSavedTableGoesOn(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		first := Table{Memory: budget.New(1 << 40)}
		living := map[uint64]made{}
		change(&first, r, r.IntN(600), living)
		b := save(t, &first)

		second := Table{Memory: budget.New(1 << 40)}
		restoring, err := Restore(&second, bytes.NewReader(b))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		left := slices.Sorted(maps.Keys(living))
		r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		for len(left) > 0 {
			n := 1 + r.IntN(min(3, len(left)))
			if err := restoring.Next(left[:n]...); err != nil {
				t.Fatal(err)
			}
			for _, h := range left[:n] {
				m := living[h]
				if _, ok := second.Lookup(m.kind, h); ok {
					t.Fatalf("%#x is found before it is made", h)
				}
				if got := second.Add(m.kind, ^h, m.parent); got != h {
					t.Fatalf("seed %d: handle %#x, want %#x", seed, got, h)
				}
				if native, ok := second.Lookup(m.kind, h); !ok || native != ^h {
					t.Fatalf("%#x is %#x, %v", h, native, ok)
				}
			}
			left = left[n:]
		}
		if err := restoring.Done(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if second.Len() != first.Len() || second.count != first.count ||
			second.Memory.Used() != first.Memory.Used() {
			t.Fatalf("seed %d: %d objects, want %d", seed, second.Len(), first.Len())
		}
		if !bytes.Equal(save(t, &second), b) {
			t.Fatalf("seed %d: it is saved in another way", seed)
		}
		one := change(&first, rand.New(rand.NewPCG(seed, 2)), 500, maps.Clone(living))
		two := change(&second, rand.New(rand.NewPCG(seed, 2)), 500, maps.Clone(living))
		if !slices.Equal(one, two) {
			t.Fatalf("seed %d: they give out other handles from then on", seed)
		}
	}
}

// some is a saved table with three objects and one free row, and its handles.
func some(t *testing.T) (b []byte, context, stream, event, gone uint64) {
	t.Helper()
	var table Table
	context = table.Add(Context, 1, 0)
	gone = table.Add(Stream, 2, context)
	stream = table.Add(Stream, 3, context)
	event = table.Add(Event, 4, context)
	table.Remove(gone)
	return save(t, &table), context, stream, event, gone
}

// TestRestoreThatGoesWrong in any way is refused by Next or Done.
func TestRestoreThatGoesWrong(t *testing.T) {
	b, context, stream, event, gone := some(t)
	all := []uint64{context, stream, event}
	tests := map[string]struct {
		handles []uint64
		make    func(*Table)
		want    bool
	}{
		"as it was": {all, func(t *Table) {
			t.Add(Context, 1, 0)
			t.Add(Stream, 1, context)
			t.Add(Event, 1, context)
		}, true},
		"nothing":         {nil, func(*Table) {}, false},
		"one that's gone": {[]uint64{gone}, func(*Table) {}, false},
		"none":            {[]uint64{0}, func(*Table) {}, false},
		"made up":         {[]uint64{context + 100}, func(*Table) {}, false},
		"a later one":     {[]uint64{context + 1<<generationShift}, func(*Table) {}, false},
		"twice at once":   {[]uint64{stream, event, stream}, func(*Table) {}, false},
		"one isn't made": {all, func(t *Table) {
			t.Add(Context, 1, 0)
			t.Add(Stream, 1, context)
		}, false},
		"one too many": {all, func(t *Table) {
			t.Add(Context, 1, 0)
			t.Add(Stream, 1, context)
			t.Add(Event, 1, context)
			t.Add(Event, 1, context)
		}, false},
		"another kind": {all, func(t *Table) {
			t.Add(Context, 1, 0)
			t.Add(Event, 1, context)
			t.Add(Event, 1, context)
		}, false},
		"another parent": {all, func(t *Table) {
			t.Add(Context, 1, 0)
			t.Add(Stream, 1, 0)
			t.Add(Event, 1, context)
		}, false},
		"removed again": {all, func(t *Table) {
			t.Add(Context, 1, 0)
			t.Remove(t.Add(Stream, 1, context))
			t.Add(Event, 1, context)
		}, false},
	}
	for name, test := range tests {
		var table Table
		r, err := Restore(&table, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err = r.Next(test.handles...); err == nil {
			test.make(&table)
			err = r.Done()
		}
		if test.want && err != nil || !test.want && !errors.Is(err, ErrSaved) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNextGivesAHandleOnce(t *testing.T) {
	b, context, stream, _, _ := some(t)
	var table Table
	r, err := Restore(&table, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Next(stream); err != nil { // it can't be made, and comes later
		t.Fatal(err)
	}
	if err := r.Next(context); err != nil || table.Add(Context, 1, 0) != context {
		t.Errorf("%v", err)
	}
	if err := r.Next(context); !errors.Is(err, ErrSaved) {
		t.Errorf("the second time: %v", err)
	}
	if r, err = Restore(new(Table), bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if err := r.Next(stream, context, stream); !errors.Is(err, ErrSaved) {
		t.Errorf("twice at once: %v", err)
	}
}

// TestNoRoomToRestore: neither where there is a table already, nor beyond the budget.
func TestNoRoomToRestore(t *testing.T) {
	b, _, _, _, _ := some(t)
	table := Table{Memory: budget.New(1 << 20)} // a context alone takes that
	if _, err := Restore(&table, bytes.NewReader(b)); !errors.Is(err, ErrSaved) {
		t.Errorf("beyond the budget: %v", err)
	}
	table = Table{}
	table.Add(Stream, 1, 0)
	if _, err := Restore(&table, bytes.NewReader(b)); !errors.Is(err, ErrSaved) {
		t.Errorf("into one with an object: %v", err)
	}
}

// TestDeepTableIsNotSaved, as it wouldn't be restored.
func TestDeepTableIsNotSaved(t *testing.T) {
	for depth := savedDepth - 2; depth < savedDepth+3; depth++ {
		var table Table
		h := table.Add(Graph, 1, 0)
		for range depth {
			h = table.Add(Graph, 1, h)
		}
		if err := table.Save(new(bytes.Buffer)); (err == nil) != (depth <= savedDepth) {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}

// TestBadTables: what is no table is refused before anything is made.
func TestBadTables(t *testing.T) {
	good, context, _, _, _ := some(t)
	at := func(row, offset int, value ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			copy(b[savedHead+savedRow*(row-1)+offset:], value)
			return b
		}
	}
	parent := binary.LittleEndian.AppendUint64(nil, context)
	for name, change := range map[string]func([]byte) []byte{
		"empty":                 func([]byte) []byte { return nil },
		"cut":                   func(b []byte) []byte { return b[:len(b)-1] },
		"too many rows":         func(b []byte) []byte { b[3] = 1; return b },
		"more than there are":   func(b []byte) []byte { b[0]++; return b },
		"free behind the end":   func(b []byte) []byte { b[4] = 5; return b },
		"free is an object":     func(b []byte) []byte { b[4] = 1; return b },
		"nothing is free":       func(b []byte) []byte { b[4] = 0; return b },
		"unknown kind":          at(1, 0, byte(kinds)),
		"its own parent":        at(1, 8, parent...),
		"free with a parent":    at(2, 8, parent...),
		"next behind the end":   at(2, 4, 5),
		"next is itself":        at(2, 4, 2),
		"next is an object":     at(2, 4, 3),
		"an object with a next": at(3, 4, 2),
		"an object made free":   at(4, 0, 0),
	} {
		var table Table
		_, err := Restore(&table, bytes.NewReader(change(bytes.Clone(good))))
		if !errors.Is(err, ErrSaved) || len(table.rows) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRestore: a table from a file that anyone wrote is refused, or it is one that can be used and
// is saved as it was.
func FuzzRestore(f *testing.F) {
	var table Table
	change(&table, rand.New(rand.NewPCG(1, 1)), 40, map[uint64]made{})
	var b bytes.Buffer
	if err := table.Save(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(make([]byte, savedHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		var table Table
		r, err := Restore(&table, bytes.NewReader(b))
		if err != nil {
			return
		}
		for i := range r.saved.rows {
			e := &r.saved.rows[i]
			if e.kind == 0 {
				continue
			}
			h := handle(i, e.generation)
			if err := r.Next(h); err != nil || table.Add(e.kind, 1, e.parent) != h {
				t.Fatalf("object %d: %v", i, err)
			}
		}
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
		if again := save(t, &table); !bytes.Equal(again, b[:len(again)]) {
			t.Fatal("it is saved in another way")
		}
		change(&table, rand.New(rand.NewPCG(1, 2)), 50, map[uint64]made{})
	})
}
