// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

const savedBase = 0x3f0000000000

// savedRig is a rig whose maps are mapped from a file.
func savedRig(t *testing.T, d *registrar) (*HostMemory, *fakeMaps) {
	t.Helper()
	fd, err := unix.MemfdCreate("pages", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, 1<<20); err != nil {
		t.Fatal(err)
	}
	r, f := newRig(d)
	r.Files = func(m *maps.Map) (files []guestmem.Run, err error) {
		for _, x := range m.Runs {
			files = append(files, guestmem.Run{Bytes: make([]byte, x.Bytes), FD: fd,
				FileOffset: x.Address})
		}
		return files, nil
	}
	for id := range uint32(3) {
		at := uint64(id) * 4 * pageSize
		m := &maps.Map{ID: id, Address: savedBase + at, Bytes: 4 * pageSize,
			Flags: wire.MapFlagWrite, Runs: []wire.Run{{Address: at, Bytes: 4 * pageSize}}}
		if id == 2 {
			m.Address += 1 << 20
		}
		f.maps[id] = m
	}
	t.Cleanup(func() { // what is left of the mappings
		for _, h := range r.ranges {
			h.keep(nil)
		}
	})
	return r, f
}

func (s *HostMemory) pinMap(t *testing.T, m *maps.Map, more uint64) {
	t.Helper()
	a := command.HostRegister{Map: uint64(m.ID), Address: m.Address, Bytes: m.Bytes, More: more}
	if result := s.pin(nil, a); result != gpubackend.Success {
		t.Fatalf("pin map %d: %d", m.ID, result)
	}
}

// pinnedBefore is what a worker has pinned: two ranges as one, of which a part is kept, and one.
func pinnedBefore(t *testing.T) (saved Saved, known []addresses.Range) {
	t.Helper()
	d := &registrar{}
	r, f := savedRig(t, d)
	r.pinMap(t, f.maps[0], 1)
	r.pinMap(t, f.maps[1], 0)
	r.pinMap(t, f.maps[2], 0)
	kept := addresses.Of(savedBase+3*pageSize, 2*pageSize)
	if result := r.keep(0, []addresses.Range{kept}); result != gpubackend.Success {
		t.Fatalf("keep: %d", result)
	}
	saved, known = r.Save(), slices.Clone(d.whole)
	for _, h := range r.ranges {
		h.keep(nil) // the worker ends
	}
	return saved, known
}

// TestSavedPins: another worker pins what was pinned, no more and no less, and gives it back as the
// first would.
func TestSavedPins(t *testing.T) {
	saved, known := pinnedBefore(t)
	d := &registrar{}
	r, f := savedRig(t, d)
	if err := r.Restore(&saved); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(d.whole, func(a, b addresses.Range) int { return int(a.Base) - int(b.Base) })
	slices.SortFunc(known, func(a, b addresses.Range) int { return int(a.Base) - int(b.Base) })
	if !slices.Equal(d.whole, known) || f.uses != 3 || r.Uses(f.maps[1]) != 1 {
		t.Fatalf("registered %#x, it was %#x; %d uses", d.whole, known, f.uses)
	}
	free, err := arena.Reserve(savedBase, 3*pageSize) // was unmapped, and is
	if err != nil {
		t.Fatal(err)
	}
	free()
	if _, err := arena.Reserve(savedBase+3*pageSize, 2*pageSize); err == nil {
		t.Fatal("what is kept isn't mapped")
	}
	for id := range uint64(3) {
		if result := r.unpin(nil, command.HostUnregister{Map: id}); result != gpubackend.Success {
			t.Fatalf("unpin map %d: %d", id, result)
		}
	}
	if len(d.whole) != 0 || f.uses != 0 || r.Places.Used() != 0 {
		t.Errorf("registered still %#x, %d uses, %d places", d.whole, f.uses, r.Places.Used())
	}
}

// TestSavedNeighbours: a page that isn't a range's any more may be another's by now. Which of them
// is restored first doesn't matter.
func TestSavedNeighbours(t *testing.T) {
	r, f := savedRig(t, &registrar{})
	const common = savedBase + 3*pageSize
	f.maps[1].Address = common
	r.pinMap(t, f.maps[0], 0)
	kept := addresses.Of(savedBase, 3*pageSize)
	if result := r.keep(0, []addresses.Range{kept}); result != gpubackend.Success {
		t.Fatalf("keep: %d", result)
	}
	r.pinMap(t, f.maps[1], 0)
	saved := r.Save()
	for _, h := range r.ranges {
		h.keep(nil)
	}
	for range 2 {
		slices.Reverse(saved.Ranges)
		r, f := savedRig(t, &registrar{})
		f.maps[1].Address = common
		if err := r.Restore(&saved); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[uint32]addresses.Range{
			0: kept, 1: addresses.Of(common, 4*pageSize),
		} {
			if got := r.ranges[id].mapped; !slices.Equal(got, []addresses.Range{want}) {
				t.Errorf("of map %d there is %#x, want %#x", id, got, want)
			}
		}
		for _, h := range r.ranges {
			h.keep(nil)
		}
	}
}

// TestRemapped: what is pinned is in other memory then, at the same addresses, and what was
// unmapped stays so. The driver pins the pages that it finds when it is told of a range: it must
// have found the new ones.
func TestRemapped(t *testing.T) {
	saved, known := pinnedBefore(t)
	d, pinned := &registrar{}, map[int64]string{}
	r, _ := savedRig(t, d)
	d.told = func(x addresses.Range) {
		for at := int64(x.Base); at < int64(x.End()); at += pageSize {
			b := make([]byte, 8)
			mem, err := os.Open("/proc/self/mem")
			if err == nil {
				_, err = mem.ReadAt(b, at)
				mem.Close()
			}
			if err != nil {
				t.Errorf("registered before it is mapped: %v", err)
			}
			pinned[at] = string(b)
		}
	}
	if err := r.Restore(&saved); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("others", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 1<<20); err != nil {
		t.Fatal(err)
	}
	page := func(n int) string { return fmt.Sprintf("page %3d", n) }
	for n := range 12 {
		if _, err := unix.Pwrite(fd, []byte(page(n)), int64(n*pageSize)); err != nil {
			t.Fatal(err)
		}
	}
	r.Files = func(m *maps.Map) (files []guestmem.Run, err error) {
		for _, x := range m.Runs {
			for at := uint64(0); at < x.Bytes; at += pageSize { // page by page
				files = append(files, guestmem.Run{Bytes: make([]byte, pageSize), FD: fd,
					FileOffset: x.Address + at})
			}
		}
		return files, nil
	}
	if err := r.Remap(); err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for n := range 12 {
		at, b := int64(savedBase+n*pageSize), make([]byte, 8)
		if n >= 8 {
			at += 1 << 20
		}
		_, err := mem.ReadAt(b, at)
		if mapped := n == 3 || n == 4 || n >= 8; mapped != (err == nil) ||
			mapped && string(b) != page(n) {
			t.Errorf("page %d has %q, %v", n, b, err)
		}
		if has, ok := pinned[at]; ok && has != page(n) {
			t.Errorf("the driver has pinned another page than page %d, with %q", n, has)
		}
	}
	for _, list := range [][]addresses.Range{d.whole, known} {
		slices.SortFunc(list, func(a, b addresses.Range) int { return cmp.Compare(a.Base, b.Base) })
	}
	if !slices.Equal(d.whole, known) {
		t.Errorf("the driver knows %#x, want %#x", d.whole, known)
	}
	r.Files = func(*maps.Map) ([]guestmem.Run, error) { return nil, unix.EINVAL }
	if err := r.Remap(); err == nil {
		t.Error("pages that aren't there are mapped")
	}
}

// TestStrangePins: the driver gets to know nothing that isn't the guest's pages.
func TestStrangePins(t *testing.T) {
	for name, change := range map[string]func(s *Saved){
		"memory that isn't there":  func(s *Saved) { s.Wholes[0].Known[0].Bytes += 1 << 30 },
		"memory before it":         func(s *Saved) { s.Wholes[0].Known[0].Base -= 1 << 30 },
		"memory that wraps":        func(s *Saved) { s.Wholes[0].Known[0].Bytes = ^uint64(0) },
		"nothing":                  func(s *Saved) { s.Wholes[0].Known[0].Bytes = 0 },
		"no whole":                 func(s *Saved) { s.Wholes = nil },
		"a whole less":             func(s *Saved) { s.Ranges[0].Whole = -1 },
		"no map":                   func(s *Saved) { s.Ranges[0].Map = 9 },
		"a map twice":              func(s *Saved) { s.Ranges[0].Map = s.Ranges[1].Map },
		"another address":          func(s *Saved) { s.Ranges[0].Address += pageSize },
		"a mapping of nothing":     func(s *Saved) { s.Ranges[0].Mapped[0].Base += 1 << 30 },
		"a mapping of half a page": func(s *Saved) { s.Ranges[0].Mapped[0].Base++ },
		"a mapping that goes on":   func(s *Saved) { s.Ranges[0].Mapped[0].Bytes += pageSize << 4 },
		"pages that can't be read": func(s *Saved) { s.Ranges[0].Bytes = 0 },
		"the same mapping, twice":  func(s *Saved) { s.Ranges = append(s.Ranges, s.Ranges[0]) },
		"more than the map has":    func(s *Saved) { s.Ranges[0].Bytes++ },
	} {
		saved, _ := pinnedBefore(t)
		change(&saved)
		r, _ := savedRig(t, &registrar{})
		if r.Restore(&saved) == nil {
			t.Errorf("%s: no error", name)
		}
		for _, h := range r.ranges {
			h.keep(nil)
		}
	}
}
