// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
	"github.com/paracuda/paracuda/gpubackend/worker/offers/offerstest"
)

// sharer is a process that has a context, and an event in it.
type sharer struct {
	*rig
	event uint64
}

func newSharer() *sharer {
	p := &sharer{rig: newRig()}
	p.current.current = p.objects.Add(object.Context, 1, 0)
	p.event = p.objects.Add(object.Event, 9, p.current.current)
	return p
}

// offers offers memory and the event, and returns what the guest hands on.
func (p *sharer) offers(t *testing.T) (memory, event []uint64) {
	t.Helper()
	return p.do(t, 0, gpubackend.OpIpcGetMemHandle, 4096),
		p.do(t, 0, gpubackend.OpIpcGetEventHandle, p.event)
}

// takes takes them, and returns the event's handle.
func (p *sharer) takes(t *testing.T, memory, event []uint64) uint64 {
	t.Helper()
	p.do(t, 0, gpubackend.OpIpcOpenMemHandle, memory...)
	return p.do(t, 0, gpubackend.OpIpcOpenEventHandle, event...)[0]
}

// TestSharedAgain: two processes that share with each other end, and others have all of that again,
// in whatever order. What the guest has handed on is good again.
func TestSharedAgain(t *testing.T) {
	a, b := newSharer(), newSharer()
	memory, event := a.offers(t)
	h := b.takes(t, memory, event)
	memoryB, eventB := b.offers(t)
	a.takes(t, memoryB, eventB)
	if err := errors.Join(a.Lacks(), b.Lacks()); err != nil {
		t.Fatal(err)
	}
	was := [2]Saved{a.Save(), b.Save()}
	if !b.Opened(h) || b.Opened(b.event) || b.Handles() != 1 || !was[1].Takes() {
		t.Error("it isn't known whose event is whose")
	}
	b.Close()
	if err := a.Lacks(); !errors.Is(err, offers.ErrNone) {
		t.Errorf("what the other process offered is gone: %v", err)
	}
	a.Close()
	again := [2]*sharer{newSharer(), newSharer()}
	none := func(uint64) error { t.Error("an event is made"); return nil }
	if err := again[0].Join(&was[0], none); !errors.Is(err, offers.ErrNone) {
		t.Errorf("nobody offers yet: %v", err)
	}
	for i, p := range again {
		if err := p.Restore(&was[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range again {
		var made []uint64
		if err := p.Join(&was[i], func(h uint64) error {
			made = append(made, h)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.driver.taken, []uint64{1 << 40}) || len(p.driver.opened) != 1 ||
			p.driver.opened[0][0] != 9 || !slices.Equal(made, []uint64{h}) {
			t.Errorf("taken at %x, opened %v, made %x", p.driver.taken, p.driver.opened, made)
		}
		if x := p.Save(); !reflect.DeepEqual(x, was[i]) {
			t.Errorf("it shares %+v, want %+v", x, was[i])
		}
	}
	newSharer().takes(t, memory, event)
	again[0].do(t, gpubackend.InvalidContext, gpubackend.OpIpcOpenMemHandle, memory...)
	double := newSharer() // of another VM, which went on from the same record
	double.Offers, _ = offerstest.New().Worker()
	double.do(t, gpubackend.InvalidValue, gpubackend.OpIpcOpenMemHandle, memory...)
	if err := double.Restore(&was[0]); err != nil {
		t.Errorf("where another VM offers the same: %v", err)
	}
	for _, p := range append(again[:], double) {
		p.Close()
	}
}

// TestDamagedShares: what can't be, or is offered already, is refused.
func TestDamagedShares(t *testing.T) {
	a := newSharer()
	memory, event := a.offers(t)
	b := newSharer()
	b.takes(t, memory, event)
	was, took := a.Save(), b.Save()
	a.Close()
	for name, change := range map[string]func(offers, takes *Saved){
		"a short name":    func(o, _ *Saved) { o.Memory[0].Name = o.Memory[0].Name[1:] },
		"a long name":     func(o, _ *Saved) { o.Events[0].Name = append(o.Events[0].Name, 1) },
		"no context":      func(o, _ *Saved) { o.Memory[0].Context++ },
		"no allocation":   func(o, _ *Saved) { o.Memory[0].Of++ },
		"no event":        func(o, _ *Saved) { o.Events[0].Of++ },
		"memory twice":    func(o, _ *Saved) { o.Memory = append(o.Memory, o.Memory[0]) },
		"one name twice":  func(o, _ *Saved) { o.Memory = append(o.Memory, another(o.Memory[0])) },
		"too much memory": func(o, _ *Saved) { o.Memory = make([]SavedShare, maxMemory+1) },
		"too many events": func(o, _ *Saved) { o.Events = make([]SavedShare, maxEvents+1) },
		"no such address": func(_, x *Saved) { x.Mapped[0].Of++ },
		"mapped twice":    func(_, x *Saved) { x.Mapped = append(x.Mapped, x.Mapped[0]) },
		"mapped nowhere":  func(_, x *Saved) { x.Mapped[0].Context = 0 },
		"no such handle":  func(_, x *Saved) { x.Opened[0].Of++ },
		"another's name":  func(_, x *Saved) { x.Opened[0].Name = make([]byte, 16) },
		"a handle that isn't to be made": func(_, x *Saved) {
			x.Opened[0].Context = took.Opened[0].Context + 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			offering, taking := newSharer(), newSharer()
			defer offering.Close()
			o, x := clone(t, was), clone(t, took)
			change(&o, &x)
			err := offering.Restore(&o)
			if err == nil {
				err = taking.Join(&x, func(uint64) error { return nil })
			}
			if !errors.Is(err, errSaved) {
				t.Errorf("%v", err)
			}
		})
	}
	refused := errors.New("there is no such object")
	offering := newSharer()
	defer offering.Close()
	if err := offering.Restore(&was); err != nil {
		t.Fatal(err)
	}
	err := newSharer().Join(&took, func(uint64) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
}

// another is other memory with the same name.
func another(x SavedShare) SavedShare {
	x.Of += 4096
	return x
}

// clone is a copy through the form in which it is written.
func clone(t *testing.T, x Saved) (y Saved) {
	t.Helper()
	b, err := json.Marshal(x)
	if err == nil {
		err = json.Unmarshal(b, &y)
	}
	if err != nil {
		t.Fatal(err)
	}
	return y
}
