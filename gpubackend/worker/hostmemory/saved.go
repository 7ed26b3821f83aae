// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Saved is the pinned memory of a program, for a worker that has the same maps.
type Saved struct {
	Wholes []SavedWhole
	Ranges []SavedRange
}

// SavedWhole is one registration with the driver.
type SavedWhole struct {
	Base, Size        uint64
	ReadOnly, Growing bool
	Known             []addresses.Range
}

// SavedRange is a range of a whole, in the map of that number.
type SavedRange struct {
	Map            uint32
	Address, Bytes uint64
	Mapped         []addresses.Range
	Whole          int
}

// errSaved is wrapped by all errors that say what is wrong with saved memory.
var errSaved = errors.New("the saved pinned memory")

// Save returns what is pinned. Nothing may be shown.
func (s *HostMemory) Save() Saved {
	saved, numbers := Saved{}, map[*whole]int{}
	for id, h := range s.ranges {
		if _, ok := numbers[h.whole]; !ok {
			w := h.whole
			numbers[w] = len(saved.Wholes)
			saved.Wholes = append(saved.Wholes, SavedWhole{Base: w.base, Size: w.size,
				ReadOnly: w.readOnly, Growing: s.growing[w.end()] == w, Known: w.known})
		}
		saved.Ranges = append(saved.Ranges, SavedRange{Map: id, Address: h.address, Bytes: h.bytes,
			Mapped: h.mapped, Whole: numbers[h.whole]})
	}
	return saved
}

// Restore pins the same memory again. The driver is only told of memory that is completely mapped
// here.
func (s *HostMemory) Restore(saved *Saved) error {
	wholes := make([]*whole, len(saved.Wholes))
	for i, w := range saved.Wholes {
		wholes[i] = &whole{base: w.Base, size: w.Size, readOnly: w.ReadOnly}
	}
	mapped := make([][]addresses.Range, len(wholes))
	for i := range saved.Ranges {
		x := &saved.Ranges[i]
		if x.Whole < 0 || x.Whole >= len(wholes) {
			return fmt.Errorf("%w: map %d is in no registration", errSaved, x.Map)
		}
		if err := s.restore(x, wholes[x.Whole]); err != nil {
			return err
		}
		mapped[x.Whole] = append(mapped[x.Whole], x.Mapped...)
	}
	for i, h := range wholes {
		there := joined(mapped[i])
		for _, r := range saved.Wholes[i].Known {
			if r.Bytes == 0 || !r.In(there) {
				return fmt.Errorf("%w: %d bytes at %#x aren't all there", errSaved, r.Bytes, r.Base)
			}
			if result := s.register(h, r); result != gpubackend.Success {
				return fmt.Errorf("%w: register %d bytes: %w", errSaved, r.Bytes, result.Err())
			}
		}
		if saved.Wholes[i].Growing {
			s.growing[h.end()] = h
		}
	}
	return nil
}

// restore maps a range where it was.
func (s *HostMemory) restore(x *SavedRange, w *whole) error {
	m, files, result := s.find(uint64(x.Map), x.Address, x.Bytes)
	if result != gpubackend.Success {
		return fmt.Errorf("%w: map %d: %w", errSaved, x.Map, result.Err())
	}
	if !w.readOnly && !m.Writable() {
		return fmt.Errorf("%w: map %d can't be written to", errSaved, x.Map)
	}
	h := &pinned{mapping: m, address: x.Address, bytes: x.Bytes,
		base: x.Address &^ (pageSize - 1), whole: w, places: len(files)}
	if !s.Places.Take(h.places) {
		return fmt.Errorf("%w: it takes too many mappings", errSaved)
	}
	for _, f := range files {
		h.size += uint64(len(f.Bytes))
	}
	if err := h.place(x.Mapped, files); err != nil {
		h.keep(nil)
		return fmt.Errorf("%w: map %d: %w", errSaved, x.Map, err)
	}
	s.Maps.Use(m)
	s.ranges[m.ID] = h
	s.Mapped(x.Bytes)
	return nil
}

// place maps parts of a range, and nothing else of it: what isn't mapped any more may be another's.
func (h *pinned) place(parts []addresses.Range, files []guestmem.Run) error {
	all, end := []addresses.Range{addresses.Of(h.base, h.size)}, uint64(0)
	for _, r := range parts {
		if (r.Base|r.Bytes)%pageSize != 0 || r.Bytes == 0 || !r.In(all) || r.Base < end {
			return fmt.Errorf("it has no %d bytes at %#x", r.Bytes, r.Base)
		}
		end = r.End()
		if _, err := arena.Reserve(uintptr(r.Base), uintptr(r.Bytes)); err != nil {
			return err
		}
		h.mapped = append(h.mapped, r)
	}
	return h.remap(files)
}

// Remap maps what is pinned again, from the files of the guest's present memory, in place of what
// it was restored with. The driver has pinned the pages that were there: it forgets them before,
// and gets the new ones. It would write to the old ones for good. No context should be current:
// then it is told as Restore told it.
func (s *HostMemory) Remap() error {
	known := map[*whole][]addresses.Range{}
	for _, h := range s.ranges {
		if _, done := known[h.whole]; done {
			continue
		}
		known[h.whole] = h.whole.known
		if result := s.unregister(h.whole); result != gpubackend.Success && !result.Sticky() {
			return fmt.Errorf("%w: forget it: %w", errSaved, result.Err())
		}
	}
	for _, h := range s.ranges {
		files, err := s.Files(h.mapping)
		if err != nil {
			return fmt.Errorf("%w: map %d: %w", errSaved, h.mapping.ID, err)
		}
		if err := h.remap(files); err != nil {
			return fmt.Errorf("%w: map %d: %w", errSaved, h.mapping.ID, err)
		}
	}
	for h, list := range known {
		for _, r := range list {
			if result := s.register(h, r); result != gpubackend.Success {
				return fmt.Errorf("%w: register %d bytes: %w", errSaved, r.Bytes, result.Err())
			}
		}
	}
	return nil
}

// remap maps files in place of the mapped parts of a range.
func (h *pinned) remap(files []guestmem.Run) error {
	at := h.base
	for _, f := range files {
		file := addresses.Of(at, uint64(len(f.Bytes)))
		for _, m := range h.mapped {
			from, to := max(m.Base, file.Base), min(m.End(), file.End())
			if from >= to {
				continue
			}
			part := f
			part.Bytes, part.FileOffset = f.Bytes[from-at:to-at], f.FileOffset+from-at
			err := arena.Put([]guestmem.Run{part}, uintptr(from), h.mapping.Writable())
			if err != nil {
				return err
			}
		}
		at = file.End()
	}
	return nil
}

// joined are ranges, with adjacent ones joined.
func joined(list []addresses.Range) (all []addresses.Range) {
	slices.SortFunc(list, func(a, b addresses.Range) int { return cmp.Compare(a.Base, b.Base) })
	for _, r := range list {
		if last := len(all) - 1; last >= 0 && all[last].End() == r.Base {
			all[last].Bytes += r.Bytes
			continue
		}
		all = append(all, r)
	}
	return all
}
