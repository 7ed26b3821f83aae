// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"io"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// registrar is a driver that knows which ranges are registered.
type registrar struct {
	whole  []addresses.Range
	refuse gpubackend.Result
	write  bool // of the last one
	// told is called for each range that gets registered; may be nil.
	told func(addresses.Range)
}

func (d *registrar) HostRegister(addr, bytes uint64, write bool) gpubackend.Result {
	if d.refuse != gpubackend.Success {
		return d.refuse
	}
	d.whole, d.write = append(d.whole, addresses.Of(addr, bytes)), write
	if d.told != nil {
		d.told(addresses.Of(addr, bytes))
	}
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

func (d *registrar) HostPageable(uint64, uint64) gpubackend.Result { return gpubackend.Success }

// fakeMaps has maps, and counts those that went back.
type fakeMaps struct {
	maps  map[uint32]*maps.Map
	uses  int
	given []uint32
}

func (f *fakeMaps) Find(id uint32) *maps.Map { return f.maps[id] }
func (f *fakeMaps) Use(*maps.Map)            { f.uses++ }
func (f *fakeMaps) Drop(m *maps.Map) {
	f.uses--
	f.given = append(f.given, m.ID)
}

// newRig is a HostMemory with a fake around it, in which every context is idle.
func newRig(d *registrar) (*HostMemory, *fakeMaps) {
	f := &fakeMaps{maps: map[uint32]*maps.Map{}}
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(Config{
		Driver: d, Maps: f, Places: addresses.PlacesFor(100), Mapped: func(uint64) {},
		Log: logrus.NewEntry(log),
		WhenIdle: func(_ *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result {
			_, result := then()
			return result
		},
	}), f
}

// newRange is a mapped range of pinned memory.
func newRange(id uint32, base, size uint64, flags uint32) *pinned {
	return &pinned{mapping: &maps.Map{ID: id, Flags: flags, Address: base, Bytes: size}, base: base,
		size: size}
}

func TestRangesAreRegisteredAsOne(t *testing.T) {
	d := &registrar{}
	r, _ := newRig(d)
	a := newRange(1, 0x10000, 0x3000, wire.MapFlagWrite)
	b := newRange(2, 0x13000, 0x1000, wire.MapFlagWrite)
	other := newRange(3, 0x80000, 0x2000, 0)
	for _, step := range []struct {
		h    *pinned
		more bool
	}{{a, true}, {other, false}, {b, false}} {
		r.ranges[step.h.mapping.ID] = step.h
		if got := r.append(step.h, step.more); got != gpubackend.Success {
			t.Fatalf("range at %#x: result %d", step.h.base, got)
		}
		if step.h == a && r.registered(a.mapping, 0, 1) {
			t.Fatal("a range is used before the last of its whole is there")
		}
		if step.h == other && d.write {
			t.Fatal("read-only memory is registered for writing")
		}
	}
	if want := []addresses.Range{addresses.Of(0x80000, 0x2000),
		addresses.Of(0x10000, 0x4000)}; !slices.Equal(d.whole, want) || !d.write {
		t.Fatalf("registered %x, want %x", d.whole, want)
	}
	if len(r.growing) != 0 || !r.registered(a.mapping, 0, 0x3000) ||
		!r.registered(b.mapping, 0, 0x1000) {
		t.Fatal("the ranges are not both registered")
	}
	for _, h := range []*pinned{b, a} {
		if got := r.forget(h.whole); got != gpubackend.Success {
			t.Fatalf("forget: result %d", got)
		}
	}
	if want := []addresses.Range{addresses.Of(0x80000, 0x2000)}; !slices.Equal(d.whole, want) ||
		r.registered(a.mapping, 0, 1) {
		t.Fatalf("still registered: %x", d.whole)
	}
}

func TestWholeThatDoesNotGetReady(t *testing.T) {
	d := &registrar{refuse: gpubackend.OutOfMemory}
	r, _ := newRig(d)
	a := newRange(1, 0x10000, 0x1000, wire.MapFlagWrite)
	r.append(a, true)
	if got := r.forget(a.whole); got != gpubackend.Success || len(r.growing) != 0 {
		t.Fatalf("result %d, %d still growing", got, len(r.growing))
	}
	r.append(a, true)
	b := newRange(2, 0x11000, 0x1000, wire.MapFlagWrite)
	if got := r.append(b, false); got != gpubackend.OutOfMemory {
		t.Fatalf("result %d, want that of the driver", got)
	}
	d.refuse = gpubackend.Success
	// What begins where a refused range ended is none of its whole.
	c := newRange(3, 0x12000, 0x1000, wire.MapFlagWrite)
	if r.append(c, false); !slices.Equal(d.whole,
		[]addresses.Range{addresses.Of(0x12000, 0x1000)}) {
		t.Fatalf("registered %x", d.whole)
	}
	if got := r.forget(a.whole); got != gpubackend.Success {
		t.Fatalf("forget: result %d", got)
	}
}

func TestPagesOfAWholeAreKept(t *testing.T) {
	d := &registrar{}
	r, _ := newRig(d)
	a := newRange(1, 0x10000, 0x3000, wire.MapFlagWrite)
	b := newRange(2, 0x13000, 0x2000, wire.MapFlagWrite)
	r.ranges[1], r.ranges[2] = a, b
	r.append(a, true)
	r.append(b, false)
	first, last := addresses.Of(0x10000, 0x1000), addresses.Of(0x14000, 0x1000)
	for _, wrong := range [][]addresses.Range{
		{addresses.Of(0xf000, 0x1000)}, {addresses.Of(0x10000, 0x6000)},
		{addresses.Of(0x10800, 0x1000)}, {addresses.Of(0x10000, 0x800)}, {last, first},
		{first, first},
		{addresses.Of(0x11000, ^uint64(0)&^0xfff)},
	} {
		if got := r.keep(1, wrong); got != gpubackend.InvalidValue {
			t.Errorf("keep %x: result %d", wrong, got)
		}
	}
	if got := r.keep(3, nil); got != gpubackend.HostMemoryNotRegistered {
		t.Errorf("keep of what is not registered: result %d", got)
	}
	if want := []addresses.Range{addresses.Of(0x10000, 0x5000)}; !slices.Equal(d.whole, want) {
		t.Fatalf("registered %x, want %x", d.whole, want)
	}
	if got := r.keep(1, []addresses.Range{first, last}); got != gpubackend.Success {
		t.Fatalf("result %d", got)
	}
	if want := []addresses.Range{first, last}; !slices.Equal(d.whole, want) {
		t.Fatalf("registered %x, want %x", d.whole, want)
	}
	if !r.registered(a.mapping, 0, 0x1000) || r.registered(a.mapping, 0x800, 0x1000) ||
		r.registered(b.mapping, 0, 1) ||
		!r.registered(b.mapping, 0x1000, 0x1000) {
		t.Fatal("copies don't find what is kept, or find what is not")
	}
	if got := r.keep(2, []addresses.Range{last}); got != gpubackend.Success ||
		!slices.Equal(d.whole, []addresses.Range{last}) {
		t.Fatalf("result %d, registered %x", got, d.whole)
	}
	if got := r.forget(a.whole); got != gpubackend.Success || len(d.whole) != 0 {
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

// TestPagesGoBack: what was unpinned, or has other pages in its place, is the guest's again.
func TestPagesGoBack(t *testing.T) {
	const address = 0x5b0000000000
	d := &registrar{}
	r, f := newRig(d)
	// which a worker has for as long as it lives
	t.Cleanup(func() { arena.Unmap(address+1<<20, pageSize) })
	memory, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	if err := unix.Ftruncate(memory, 4*pageSize); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(memory, 0, 4*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	r.Files = func(*maps.Map) ([]guestmem.Run, error) {
		return []guestmem.Run{{FD: memory, Bytes: b[:pageSize], ShrinkSealed: true}}, nil
	}
	add := func(id uint32, at uint64, flags uint32) {
		f.maps[id] = &maps.Map{ID: id, Address: at, Bytes: pageSize, Flags: flags}
	}
	add(1, address, wire.MapFlagWrite)
	add(2, address+1<<20, wire.MapFlagWrite)
	add(3, address+1<<20, wire.MapFlagWrite)
	add(4, address, wire.MapFlagOneshot)
	do := func(want gpubackend.Result, op gpubackend.Op, words ...uint64) {
		t.Helper()
		command := &arena.Command{N: len(words)}
		copy(command.Words[:], words)
		var c call.Call
		c.Start(command)
		if got := r.Handlers()[op].Run(&c); got != want {
			t.Fatalf("%s %x: %v, want %v", op.Name(), words, got, want)
		}
	}
	do(gpubackend.InvalidValue, gpubackend.OpHostRegister, 9, address, pageSize, 0)
	do(gpubackend.InvalidValue, gpubackend.OpHostRegister, 1, address, 2*pageSize, 0)
	do(gpubackend.InvalidValue, gpubackend.OpHostRegister, 4, address, pageSize, 0)
	do(0, gpubackend.OpHostRegister, 1, address, pageSize, 0)
	do(gpubackend.InvalidValue, gpubackend.OpHostRegister, 1, address, pageSize, 0)
	do(gpubackend.InvalidValue, gpubackend.OpHostPageable, 1, address, pageSize)
	m := f.maps[1]
	onMap := call.Reference{Kind: wire.BufferMap, Value: 1 << 32, Bytes: 64}
	if !r.Holds(m) || !r.AtAddress(m, onMap) || f.uses != 1 {
		t.Errorf("pinned memory isn't there: %d uses", f.uses)
	}
	do(0, gpubackend.OpHostUnregister, 1)
	do(gpubackend.HostMemoryNotRegistered, gpubackend.OpHostUnregister, 1)
	if r.Holds(m) || r.AtAddress(m, onMap) {
		t.Error("unpinned memory is there")
	}
	do(0, gpubackend.OpHostPageable, 2, address+1<<20, pageSize)
	if !r.Holds(f.maps[2]) || len(f.given) != 1 {
		t.Errorf("gone: %v", f.given)
	}
	do(0, gpubackend.OpHostPageable, 3, address+1<<20, pageSize)
	if !slices.Equal(f.given, []uint32{1, 2}) || r.Holds(f.maps[2]) || !r.Holds(f.maps[3]) ||
		f.uses != 1 {
		t.Errorf("gone: %v, %d uses", f.given, f.uses)
	}
}
