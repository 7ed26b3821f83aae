// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
)

// registrar is a driver that knows which ranges are registered.
type registrar struct {
	*fakeDriver
	whole  []addresses.Range
	refuse gpubackend.Result
	write  bool // of the last one
}

func (d *registrar) HostRegister(addr, bytes uint64, write bool) gpubackend.Result {
	if d.refuse != gpubackend.Success {
		return d.refuse
	}
	d.whole, d.write = append(d.whole, addresses.Of(addr, bytes)), write
	return gpubackend.Success
}

func (d *registrar) HostUnregister(addr, bytes uint64) gpubackend.Result {
	i := slices.Index(d.whole, addresses.Of(addr, bytes))
	if i < 0 {
		return gpubackend.HostMemoryNotRegistered
	}
	d.whole = slices.Delete(d.whole, i, i+1)
	return gpubackend.Success
}

// newRange is a mapped range of pinned memory.
func newRange(id uint32, base, size uint64, flags uint32) *hostRange {
	return &hostRange{mapping: &mapping{id: id, flags: flags, address: base, bytes: size}, base: base, size: size}
}

func TestRangesAreRegisteredAsOne(t *testing.T) {
	r := newRig(t)
	d := &registrar{fakeDriver: r.driver}
	r.use(d)
	a := newRange(1, 0x10000, 0x3000, wire.MapFlagWrite)
	b := newRange(2, 0x13000, 0x1000, wire.MapFlagWrite)
	other := newRange(3, 0x80000, 0x2000, 0)
	for _, step := range []struct {
		h    *hostRange
		more bool
	}{{a, true}, {other, false}, {b, false}} {
		r.hosts[step.h.mapping.id] = step.h
		if got := r.appendHost(step.h, step.more); got != gpubackend.Success {
			t.Fatalf("range at %#x: result %d", step.h.base, got)
		}
		if step.h == a && r.registered(a.mapping, 0, 1) {
			t.Fatal("a range is used before the last of its whole is there")
		}
		if step.h == other && d.write {
			t.Fatal("read-only memory is registered for writing")
		}
	}
	if want := []addresses.Range{addresses.Of(0x80000, 0x2000), addresses.Of(0x10000, 0x4000)}; !slices.Equal(d.whole, want) || !d.write {
		t.Fatalf("registered %x, want %x", d.whole, want)
	}
	if len(r.growing) != 0 || !r.registered(a.mapping, 0, 0x3000) || !r.registered(b.mapping, 0, 0x1000) {
		t.Fatal("the ranges are not both registered")
	}
	for _, h := range []*hostRange{b, a} {
		if got := r.forgetWhole(h.whole); got != gpubackend.Success {
			t.Fatalf("forget: result %d", got)
		}
	}
	if want := []addresses.Range{addresses.Of(0x80000, 0x2000)}; !slices.Equal(d.whole, want) || r.registered(a.mapping, 0, 1) {
		t.Fatalf("still registered: %x", d.whole)
	}
}

func TestWholeThatDoesNotGetReady(t *testing.T) {
	r := newRig(t)
	d := &registrar{fakeDriver: r.driver, refuse: gpubackend.OutOfMemory}
	r.use(d)
	a := newRange(1, 0x10000, 0x1000, wire.MapFlagWrite)
	r.appendHost(a, true)
	if got := r.forgetWhole(a.whole); got != gpubackend.Success || len(r.growing) != 0 {
		t.Fatalf("result %d, %d still growing", got, len(r.growing))
	}
	r.appendHost(a, true)
	b := newRange(2, 0x11000, 0x1000, wire.MapFlagWrite)
	if got := r.appendHost(b, false); got != gpubackend.OutOfMemory {
		t.Fatalf("result %d, want that of the driver", got)
	}
	d.refuse = gpubackend.Success
	// What begins where a refused range ended is none of its whole.
	c := newRange(3, 0x12000, 0x1000, wire.MapFlagWrite)
	if r.appendHost(c, false); !slices.Equal(d.whole, []addresses.Range{addresses.Of(0x12000, 0x1000)}) {
		t.Fatalf("registered %x", d.whole)
	}
	if got := r.forgetWhole(a.whole); got != gpubackend.Success {
		t.Fatalf("forget: result %d", got)
	}
}

func TestPagesOfAWholeAreKept(t *testing.T) {
	r := newRig(t)
	d := &registrar{fakeDriver: r.driver}
	r.use(d)
	a := newRange(1, 0x10000, 0x3000, wire.MapFlagWrite)
	b := newRange(2, 0x13000, 0x2000, wire.MapFlagWrite)
	r.hosts[1], r.hosts[2] = a, b
	r.appendHost(a, true)
	r.appendHost(b, false)
	first, last := addresses.Of(0x10000, 0x1000), addresses.Of(0x14000, 0x1000)
	for _, wrong := range [][]addresses.Range{
		{addresses.Of(0xf000, 0x1000)}, {addresses.Of(0x10000, 0x6000)}, {addresses.Of(0x10800, 0x1000)}, {addresses.Of(0x10000, 0x800)}, {last, first}, {first, first},
		{addresses.Of(0x11000, ^uint64(0)&^0xfff)},
	} {
		if got := r.keepHost(1, wrong); got != gpubackend.InvalidValue {
			t.Errorf("keep %x: result %d", wrong, got)
		}
	}
	if got := r.keepHost(3, nil); got != gpubackend.HostMemoryNotRegistered {
		t.Errorf("keep of what is not registered: result %d", got)
	}
	if want := []addresses.Range{addresses.Of(0x10000, 0x5000)}; !slices.Equal(d.whole, want) {
		t.Fatalf("registered %x, want %x", d.whole, want)
	}
	if got := r.keepHost(1, []addresses.Range{first, last}); got != gpubackend.Success {
		t.Fatalf("result %d", got)
	}
	if want := []addresses.Range{first, last}; !slices.Equal(d.whole, want) {
		t.Fatalf("registered %x, want %x", d.whole, want)
	}
	if !r.registered(a.mapping, 0, 0x1000) || r.registered(a.mapping, 0x800, 0x1000) || r.registered(b.mapping, 0, 1) ||
		!r.registered(b.mapping, 0x1000, 0x1000) {
		t.Fatal("copies don't find what is kept, or find what is not")
	}
	if got := r.keepHost(2, []addresses.Range{last}); got != gpubackend.Success || !slices.Equal(d.whole, []addresses.Range{last}) {
		t.Fatalf("result %d, registered %x", got, d.whole)
	}
	if got := r.forgetWhole(a.whole); got != gpubackend.Success || len(d.whole) != 0 {
		t.Fatalf("forget: result %d, still registered: %x", got, d.whole)
	}
}

func TestKeptPartsOfARange(t *testing.T) {
	unmap, err := arena.Reserve(0x102345670000, 0x5000)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	h := newRange(1, 0x102345670000, 0x5000, 0)
	h.mapped = []addresses.Range{addresses.Of(h.base, h.size)}
	first, last := addresses.Of(h.base, 0x1000), addresses.Of(h.base+0x4000, 0x1000)
	h.keep([]addresses.Range{first, last})
	if !slices.Equal(h.mapped, []addresses.Range{first, last}) {
		t.Fatalf("mapped %x", h.mapped)
	}
	between, err := arena.Reserve(0x102345671000, 0x3000)
	if err != nil {
		t.Fatal("the rest is not free: ", err)
	}
	defer between()
	if again, err := arena.Reserve(0x102345670000, 0x1000); err == nil {
		again()
		t.Fatal("what is kept is free")
	}
	h.keep([]addresses.Range{last})
	h.keep(nil)
	if len(h.mapped) != 0 {
		t.Fatalf("mapped %x", h.mapped)
	}
	if again, err := arena.Reserve(0x102345671000, 0x3000); err == nil {
		again()
		t.Fatal("what another range mapped there was unmapped")
	}
}
