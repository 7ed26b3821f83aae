// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// next is the Remains of the next process.
func next(t *testing.T, s keepertest.Store) *remains.Remains {
	t.Helper()
	r, _, err := remains.New(s, s.Given(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sorted(list []Child) []Child {
	slices.SortFunc(list, func(a, b Child) int { return cmp.Compare(a.Number, b.Number) })
	return list
}

// TestNextProcessKnowsTheChildren: each process knows those that began before it and didn't end.
func TestNextProcessKnowsTheChildren(t *testing.T) {
	t.Parallel()
	s := keepertest.Store{}
	defer s.Close()
	children := []Child{
		{Role: Mover, Number: 3},
		{Role: Worker, Number: 4, Channel: 0, PID: -1, Name: "sixteen bytes ok", Entry: 5},
		{Role: Worker, Number: 1 << 31, Channel: 63, PID: 7, Entry: 63, Base: 65535, Ahead: true},
		// It is gone, and another one may have its entry.
		{Role: Worker, Number: 1<<31 + 1, Channel: 7, Entry: 63, Ahead: true, Cold: true},
	}
	for round := range 3 {
		r := next(t, s)
		x, before, err := New(r)
		if err != nil || round == 0 && before != nil ||
			round > 0 && !slices.Equal(sorted(before), children) {
			t.Fatalf("round %d: %+v, %v", round, before, err)
		}
		x.Began(Child{Role: Worker, Number: 99, Channel: 9, Entry: 9})
		x.Began(Child{Role: Worker, Number: 97, Channel: 7}) // another one has its place
		for _, c := range children {
			cold := c.Cold
			c.Cold = false
			if x.Began(c); cold {
				x.AwaitsCold(c.Number)
			}
		}
		x.AwaitsCold(98)
		x.Ended(99)
		x.Ended(98)
		if err := errors.Join(x.Err(), r.Err()); err != nil {
			t.Fatal(err)
		}
		x.Close()
		r.Close()
	}
}

func TestWithoutAKeeper(t *testing.T) {
	t.Parallel()
	x, before, err := New(nil)
	if x != nil || before != nil || err != nil {
		t.Errorf("%v, %v, %v", x, before, err)
	}
	x.Began(Child{Number: 1})
	x.AwaitsCold(1)
	x.Ended(1)
	x.Close()
	if err := x.Err(); err != nil {
		t.Error(err)
	}
}

// TestNoteThatFails: it is an error to note more children than there is room for.
func TestNoteThatFails(t *testing.T) {
	t.Parallel()
	s := keepertest.Store{}
	defer s.Close()
	r := next(t, s)
	defer r.Close()
	x, _, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for i := range uint32(MaxChildren + 1) {
		x.Began(Child{Role: Worker, Number: i, Channel: int(i)})
	}
	if x.Err() == nil {
		t.Error("more children than there is room for are noted")
	}
}

// TestBadLists: a list with a wrong length, a field out of bounds, or anything twice is refused.
func TestBadLists(t *testing.T) {
	t.Parallel()
	good := encode([]Child{{Role: Worker, Number: 1, Channel: 2, Entry: 3},
		{Role: Worker, Number: 2, Channel: 3, Entry: 4}, {Role: Mover, Number: 3}})
	if _, err := parse(good); err != nil {
		t.Fatal(err)
	}
	with := func(at int, v uint32) []byte {
		b := slices.Clone(good)
		little.PutUint32(b[at:], v)
		return b
	}
	second := headBytes + childBytes
	for name, b := range map[string][]byte{
		"none": nil, "short": good[:len(good)-1], "long": append(slices.Clone(good), 0),
		"version": with(0, 2), "more": with(4, 4), "many": with(4, 1<<31),
		"role": with(headBytes, 3), "no role": with(headBytes, 0),
		"channel": with(headBytes+8, 64), "entry": with(headBytes+32, 64),
		"base": with(headBytes+36, 1<<16), "flags": with(headBytes+40, 4),
		"number twice": with(second+4, 1), "channel twice": with(second+8, 2),
		"entry twice": with(second+32, 3),
	} {
		if list, err := parse(b); !errors.Is(err, ErrList) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encode(nil))
	f.Add(encode([]Child{{Role: Worker, Number: 1, Name: "a"}, {Role: Mover, Number: 3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parse(b)
		if err != nil {
			return
		}
		if again, err := parse(encode(list)); err != nil || !slices.Equal(again, list) {
			t.Errorf("%+v is written and read as %+v, %v", list, again, err)
		}
	})
}
