// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// program makes and removes objects, and is the oracle: it knows every command that there ever was.
type program struct {
	t       *testing.T
	objects object.Table
	memory  *budget.Budget
	journal *Journal
	made    map[uint64]Executed // by the one handle that each made
	order   []uint64            // handles, by the time that they were made
	kinds   map[uint64]object.Kind
	settled map[uint64]uint64 // of an object: the setting that was made last
}

func newProgram(t *testing.T, limit uint64) *program {
	p := &program{t: t, memory: budget.New(1 << 30), made: map[uint64]Executed{},
		kinds: map[uint64]object.Kind{}, settled: map[uint64]uint64{}}
	p.journal = New(limit, p.memory, p.alive)
	return p
}

func (p *program) alive(h uint64) bool {
	_, ok := p.objects.Lookup(p.kinds[h], h)
	return ok
}

func (p *program) add(kind object.Kind, parent uint64, body []byte) uint64 {
	h := p.objects.Add(kind, 1, parent)
	e := Executed{Op: uint16(kind), Context: parent, Words: []uint64{parent, h},
		Body: body, Made: []uint64{h}}
	p.kinds[h], p.made[h], p.order = kind, e, append(p.order, h)
	delete(p.settled, h)
	var uses []uint64
	if parent != 0 {
		uses = []uint64{parent}
	}
	p.journal.Add(e, uses)
	return h
}

func (p *program) set(h, value uint64) {
	p.settled[h] = value
	p.journal.Set(Key{999, h}, Executed{Op: 999, Words: []uint64{h, value}}, []uint64{h})
}

func (p *program) living() (list []uint64) {
	for _, h := range p.order {
		if p.alive(h) {
			list = append(list, h)
		}
	}
	return list
}

// random does something that may keep nothing from being made again.
func (p *program) random(r *rand.Rand) {
	list := p.living()
	switch {
	case len(list) == 0 || r.IntN(20) == 0:
		p.add(object.Context, 0, nil)
	case r.IntN(3) == 0:
		p.objects.Remove(list[r.IntN(len(list))])
	case r.IntN(4) == 0:
		p.set(list[r.IntN(len(list))], r.Uint64())
	default:
		parent := list[r.IntN(len(list))]
		switch p.kinds[parent] {
		case object.Context:
			kinds := []object.Kind{object.Module, object.Stream, object.Event}
			p.add(kinds[r.IntN(3)], parent, make([]byte, r.IntN(300)))
		case object.Module:
			p.add(object.Function, parent, []byte("name"))
		}
	}
}

// TestAgainstProgram: what a journal gives is what made the objects that are there, in the order in
// which they were made, and the last of their settings; and it takes little more than that.
func TestAgainstProgram(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newProgram(t, 1<<30)
		for range 600 {
			p.random(r)
			if n := len(p.journal.list); n > max(tidyLeast, p.journal.tidyAt) {
				t.Fatalf("%d commands, it wants to be tidied at %d", n, p.journal.tidyAt)
			}
			if p.memory.Used() != p.journal.Bytes() {
				t.Fatalf("%d bytes count, it has %d", p.memory.Used(), p.journal.Bytes())
			}
		}
		list, err := p.journal.Executed(p.objects.Len())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var made []uint64
		settled := map[uint64]uint64{}
		for _, e := range list {
			if e.Op == 999 {
				settled[e.Words[0]] = e.Words[1]
				continue
			}
			if !reflect.DeepEqual(e, p.made[e.Made[0]]) {
				t.Fatalf("seed %d: %v", seed, e)
			}
			made = append(made, e.Made...)
		}
		if want := p.living(); !slices.Equal(made, want) {
			t.Fatalf("seed %d: %d made again, want %d", seed, len(made), len(want))
		}
		maps.DeleteFunc(p.settled, func(h, _ uint64) bool { return !p.alive(h) })
		if !maps.Equal(settled, p.settled) {
			t.Fatalf("seed %d: settings %v, want %v", seed, settled, p.settled)
		}
		p.restored(list)
	}
}

// restored has a table made again from what was written of a journal and of the first table.
func (p *program) restored(list []Executed) {
	p.t.Helper()
	var b, table bytes.Buffer
	if err := errors.Join(Save(&b, list), p.objects.Save(&table)); err != nil {
		p.t.Fatal(err)
	}
	if uint64(b.Len()) != SavedBytes(list) {
		p.t.Fatalf("%d bytes, it said %d", b.Len(), SavedBytes(list))
	}
	var second object.Table
	restoring, err := object.Restore(&second, &table)
	if err != nil {
		p.t.Fatal(err)
	}
	again, err := readAll(b.Bytes(), math.MaxUint64)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range again {
		if err := restoring.Next(e.Made...); err != nil {
			p.t.Fatal(err)
		}
		if len(e.Made) > 0 {
			second.Add(object.Kind(e.Op), 1, e.Words[0])
		}
	}
	if err := restoring.Done(); err != nil {
		p.t.Fatal(err)
	}
}

// none says of no setting that it lasts when its context ends.
func none(Key) bool { return false }

// TestEnd: what was set of a context goes with it, but for what lasts, and so does what is unset.
func TestEnd(t *testing.T) {
	p := newProgram(t, 1<<20)
	a, b := p.add(object.Context, 0, nil), p.add(object.Context, 0, nil)
	for i, uses := range [][]uint64{{a}, {b}, {a, b}, {b, a}, {b}} {
		p.journal.Set(Key{uint64(i)}, Executed{Op: uint16(i), Words: []uint64{7}}, uses)
	}
	p.journal.End(a, func(key Key) bool { return key[0] == 3 })
	p.journal.Unset(Key{4})
	p.journal.Unset(Key{5})
	var left []uint16
	for _, e := range p.journal.Settings(func(Key) bool { return true }) {
		left = append(left, e.Op)
	}
	if !slices.Equal(left, []uint16{1, 3}) || p.memory.Used() != p.journal.Bytes() {
		t.Errorf("settings %v are left, and %d bytes of %d", left, p.journal.Bytes(),
			p.memory.Used())
	}
	if e, ok := p.journal.Maker(b); !ok || e.Made[0] != b {
		t.Errorf("%#x was made by %+v, %t", b, e, ok)
	}
	if e, ok := p.journal.Maker(77); ok {
		t.Errorf("77 was made by %+v", e)
	}
}

// TestFixed: what can't be made again is said, with the reason.
func TestFixed(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(*program)
		want string
	}{
		"nothing": {func(*program) {}, ""},
		"one that is gone by now": {func(p *program) {
			c := p.add(object.Context, 0, nil)
			p.objects.Remove(p.add(object.Event, c, nil))
		}, ""},
		"a user of one that is gone": {func(p *program) {
			library := p.add(object.Library, 0, nil)
			h := p.objects.Add(object.Function, 1, 0)
			p.kinds[h] = object.Function
			p.journal.Add(Executed{Op: 291, Made: []uint64{h}}, []uint64{library})
			p.objects.Remove(library)
		}, "command 291"},
		"one of two": {func(p *program) {
			a, b := p.objects.Add(object.Stream, 1, 0), p.objects.Add(object.Stream, 1, 0)
			p.kinds[a], p.kinds[b] = object.Stream, object.Stream
			p.journal.Add(Executed{Op: 7, Made: []uint64{a, b}}, nil)
			p.objects.Remove(b)
		}, "along with others"},
		"two by another way": {func(p *program) {
			p.objects.Add(object.Graph, 1, 0)
			p.add(object.Context, 0, nil)
			p.objects.Add(object.Graph, 1, 0)
		}, "2 of 3"},
		"one twice": {func(p *program) {
			h := p.add(object.Context, 0, nil)
			p.journal.Add(p.made[h], nil)
		}, "twice"},
		"one in a context that has ended": {func(p *program) {
			c := p.add(object.Context, 0, nil)
			p.add(object.Function, c, nil)
			p.journal.End(c, none)
		}, "has ended since"},
		"none in a context that has ended": {func(p *program) {
			c := p.add(object.Context, 0, nil)
			h := p.add(object.Stream, c, nil)
			p.journal.End(c, none)
			p.objects.Remove(h)
			p.add(object.Stream, c, nil)
		}, ""},
		"what isn't kept": {func(p *program) {
			p.journal.Refuse("a context was reset")
			p.add(object.Context, 0, nil)
		}, "a context was reset"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, 1<<20)
			tt.do(p)
			_, err := p.journal.Executed(p.objects.Len())
			switch {
			case (err == nil) != (tt.want == ""):
				t.Errorf("%v, want %q", err, tt.want)
			case err == nil:
			case !errors.Is(err, ErrFixed) || !strings.Contains(err.Error(), tt.want):
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestBounded: what is gone makes room; beyond the bound all is dropped, for good.
func TestBounded(t *testing.T) {
	p := newProgram(t, 10_000)
	c := p.add(object.Context, 0, nil)
	for range 100 {
		p.objects.Remove(p.add(object.Module, c, make([]byte, 5000)))
		if p.journal.Bytes() > 10_000 {
			t.Fatalf("%d bytes", p.journal.Bytes())
		}
	}
	if _, err := p.journal.Executed(1); err != nil {
		t.Fatal(err)
	}
	m := p.add(object.Module, c, make([]byte, 10_000))
	p.objects.Remove(m)
	if _, err := p.journal.Executed(1); !errors.Is(err, ErrFixed) {
		t.Errorf("%v", err)
	}
	if p.journal.Bytes() != 0 || p.memory.Used() != 0 {
		t.Errorf("%d bytes are left, %d count", p.journal.Bytes(), p.memory.Used())
	}

	p = newProgram(t, 1<<20)
	p.memory.SetLimit(2000)
	p.add(object.Context, 0, make([]byte, 4000))
	if _, err := p.journal.Executed(1); !errors.Is(err, ErrFixed) || p.memory.Used() != 0 {
		t.Errorf("without host memory: %v, %d bytes count", err, p.memory.Used())
	}
}
