// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// registrar is a driver that knows which ranges are registered.
type registrar struct {
	*fakeDriver
	whole  []addressRange
	refuse gpubackend.Result
	write  bool // of the last one
}

func (d *registrar) HostRegister(addr, bytes uint64, write bool) gpubackend.Result {
	if d.refuse != gpubackend.Success {
		return d.refuse
	}
	d.whole, d.write = append(d.whole, addressRange{addr, bytes}), write
	return gpubackend.Success
}

func (d *registrar) HostUnregister(addr, bytes uint64) gpubackend.Result {
	i := slices.Index(d.whole, addressRange{addr, bytes})
	if i < 0 {
		return gpubackend.HostMemoryUnregistered
	}
	d.whole = slices.Delete(d.whole, i, i+1)
	return gpubackend.Success
}

// newRange is a mapped range of pinned memory.
func newRange(id uint32, base, size uint64, flags uint32) *hostRange {
	return &hostRange{mapping: &mapping{id: id, flags: flags}, base: base, size: size}
}

func TestRangesAreRegisteredAsOne(t *testing.T) {
	r := newRig(t)
	d := &registrar{fakeDriver: r.driver}
	r.Worker.driver = d
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
		if step.h == a && r.registered(a.mapping) != nil {
			t.Fatal("a range is used before the last of its whole is there")
		}
		if step.h == other && d.write {
			t.Fatal("read-only memory is registered for writing")
		}
	}
	if want := []addressRange{{0x80000, 0x2000}, {0x10000, 0x4000}}; !slices.Equal(d.whole, want) || !d.write {
		t.Fatalf("registered %x, want %x", d.whole, want)
	}
	if len(r.growing) != 0 || r.registered(a.mapping) != a || r.registered(b.mapping) != b {
		t.Fatal("the ranges are not both registered")
	}
	for _, h := range []*hostRange{b, a} {
		if got := r.forgetWhole(h.whole); got != gpubackend.Success {
			t.Fatalf("forget: result %d", got)
		}
	}
	if want := []addressRange{{0x80000, 0x2000}}; !slices.Equal(d.whole, want) || r.registered(a.mapping) != nil {
		t.Fatalf("still registered: %x", d.whole)
	}
}

func TestWholeThatDoesNotGetReady(t *testing.T) {
	r := newRig(t)
	d := &registrar{fakeDriver: r.driver, refuse: gpubackend.OutOfMemory}
	r.Worker.driver = d
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
	if r.appendHost(c, false); !slices.Equal(d.whole, []addressRange{{0x12000, 0x1000}}) {
		t.Fatalf("registered %x", d.whole)
	}
	if got := r.forgetWhole(a.whole); got != gpubackend.Success {
		t.Fatalf("forget: result %d", got)
	}
}
