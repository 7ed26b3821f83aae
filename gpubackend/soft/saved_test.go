// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

const counterKernel = ".version 8.0\n.target sm_80\n.address_size 64\n" +
	".visible .global .align 4 .u32 counter;\n" +
	".visible .entry f() { .reg .u32 %r; .reg .u64 %a; mov.u64 %a, counter;\n" +
	"ld.global.u32 %r, [%a]; add.u32 %r, %r, 1; st.global.u32 [%a], %r; ret; }\n"

// launchOne launches a kernel of one thread and waits for it.
func launchOne(t *testing.T, d *Device, f gpubackend.Function) {
	t.Helper()
	one := [3]uint32{1, 1, 1}
	ok(t, d.Launch(&gpubackend.Launch{Function: f, Grid: one, Block: one}))
	ok(t, wait(t, d.ContextQuery))
}

// moved is what a device leaves for the one that takes its place.
type moved struct {
	layout, image []byte
	pieces        []gpubackend.Piece
}

func (d *Device) moveAway(t *testing.T) (m moved) {
	t.Helper()
	if why := d.Unsavable(); why != "" {
		t.Fatalf("it can't be saved: %s", why)
	}
	var b bytes.Buffer
	if err := d.SaveLayout(&b); err != nil {
		t.Fatal(err)
	}
	m.layout, m.pieces = b.Bytes(), d.Pieces()
	m.image = make([]byte, gpubackend.PieceBytes(m.pieces))
	ok(t, d.SavePieces(m.pieces, m.image))
	d.Close()
	return m
}

// again opens a device in the place of one that was moved away.
func again(t *testing.T, o Options, m moved) *Device {
	t.Helper()
	d := New(o)
	_, result := d.Open(nil)
	ok(t, result)
	t.Cleanup(d.Close)
	if err := d.RestoreLayout(bytes.NewReader(m.layout)); err != nil {
		t.Fatal(err)
	}
	primary(t, d)
	return d
}

func place(t *testing.T, d *Device, address uint64) {
	t.Helper()
	if err := d.PlaceCode(address); err != nil {
		t.Fatal(err)
	}
}

// TestSaved: a device takes the place of another one, with memory, code and events where they were.
func TestSaved(t *testing.T) {
	first := newDevice(t, Options{})
	gone := alloc(t, first, 3<<20)
	m, _, _, result := first.ModuleLoadData([]byte(counterKernel), nil, nil, nil)
	ok(t, result)
	l, _, _, result := first.LibraryLoadData([]byte(counterKernel), nil, nil, nil)
	ok(t, result)
	small, large := alloc(t, first, 1000), alloc(t, first, 20<<20)
	ok(t, first.MemFree(gone))
	inLibrary, _, result := first.LibraryGetGlobal(l, "counter")
	ok(t, result)
	counter, _, result := first.ModuleGetGlobal(m, "counter")
	ok(t, result)
	f, result := first.ModuleGetFunction(m, "f")
	ok(t, result)
	from, _ := first.EventCreate(0)
	to, _ := first.EventCreate(0)
	ok(t, first.EventRecordWithFlags(from, 0, 0))
	launchOne(t, first, f)
	ok(t, first.EventRecordWithFlags(to, 0, 0))
	ok(t, wait(t, first.ContextQuery))
	elapsed, result := first.EventElapsed(from, to)
	ok(t, result)
	copy(space.Bytes(large+(20<<20)-4, 4), "LAST")
	codes, times := first.Codes(), first.EventTimes([]gpubackend.Event{from, to, 999})
	allocated := first.Allocated()
	if len(codes) != 2 || len(times) != 2 || len(allocated) != 2 {
		t.Fatalf("%v, %v, %v", codes, times, allocated)
	}
	o, state := first.options, first.moveAway(t)

	d := again(t, o, state)
	places := map[bool]uint64{}
	for _, c := range codes {
		places[c.Module != 0] = c.Address
	}
	if places[true] != counter || places[false] != inLibrary {
		t.Fatalf("code at %v", codes)
	}
	place(t, d, counter)
	m, _, _, result = d.ModuleLoadData([]byte(counterKernel), nil, nil, nil)
	ok(t, result)
	l, _, _, result = d.LibraryLoadData([]byte(counterKernel), nil, nil, nil)
	ok(t, result)
	place(t, d, inLibrary)
	ok(t, d.LoadCode(l))
	if err := d.LayoutRestored(); err == nil || !strings.Contains(err.Error(), "2 allocations") {
		t.Fatalf("two allocations are missing: %v", err)
	}
	for _, a := range allocated {
		ok(t, d.TakeAllocation(a))
	}
	if err := d.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	ok(t, d.LoadPieces(state.pieces, state.image))
	f, result = d.ModuleGetFunction(m, "f")
	ok(t, result)
	launchOne(t, d, f)
	if n := space.Bytes(counter, 1)[0]; n != 2 {
		t.Errorf("the kernel has counted to %d", n)
	}
	if string(space.Bytes(large+(20<<20)-4, 4)) != "LAST" {
		t.Error("memory has something else")
	}
	from, _ = d.EventCreate(0)
	to, _ = d.EventCreate(0)
	if times[0].Ago < times[1].Ago {
		times[0], times[1] = times[1], times[0]
	}
	times[0].Event, times[1].Event = from, to
	ok(t, d.SetEventTimes(times))
	now, result := d.EventElapsed(from, to)
	ok(t, result)
	if now != elapsed {
		t.Errorf("%d ns between the events, it were %d", now, elapsed)
	}
	ok(t, d.MemFree(small))
	ok(t, d.MemFree(large))
	if fresh := alloc(t, d, 3<<20); fresh == counter || fresh == inLibrary {
		t.Errorf("memory that is in use is given out again, at %#x", fresh)
	}
}

// TestUnsavable: a device can't be saved if kernels may allocate, as only their heap knows of that.
func TestUnsavable(t *testing.T) {
	d := newDevice(t, Options{})
	_, _, _, result := d.ModuleLoadData([]byte(".version 8.0\n.target sm_80\n.address_size 64\n"+
		".extern .func (.param .b64 r) malloc (.param .b64 n);\n.visible .entry f() { ret; }\n"),
		nil, nil, nil)
	ok(t, result)
	if why := d.Unsavable(); !strings.Contains(why, "malloc") {
		t.Errorf("%q", why)
	}
}

// TestDamagedLayout is refused.
func TestDamagedLayout(t *testing.T) {
	first := newDevice(t, Options{})
	alloc(t, first, 1000)
	o, state := first.options, first.moveAway(t)
	for _, layout := range [][]byte{nil, state.layout[:7], state.layout[:20],
		append([]byte{2}, state.layout[1:]...), state.layout[:len(state.layout)-1]} {
		d := New(o)
		_, result := d.Open(nil)
		ok(t, result)
		if d.RestoreLayout(bytes.NewReader(layout)) == nil {
			t.Errorf("%d bytes are no layout", len(layout))
		}
		d.Close()
	}
}
