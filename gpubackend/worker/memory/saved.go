// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
)

// Saved is all that a Memory knows, if nothing of it is shared with other processes. What is in the
// memory is saved by whoever can read it, whether or not it is mapped.
type Saved struct {
	Reserved []addresses.Range
	Created  []SavedMemory
}

// SavedMemory is memory without an address.
type SavedMemory struct {
	Native                     uint64 // the device's number
	Handle                     uint64 // 0: it was released, and mappings keep the memory
	Bytes, Device, Compression uint64
	Mappings                   []SavedMapping
}

// SavedMapping is where memory is mapped, and which devices may access it there.
type SavedMapping struct {
	Base   uint64
	Access []SavedAccess
}

// SavedAccess is what a device may do with a mapping.
type SavedAccess struct{ Device, Access uint64 }

var errSaved = errors.New("the saved virtual memory")

// Save returns all of that.
func (m *Memory) Save() Saved {
	s := Saved{Reserved: m.reserved}
	place := map[*memory]int{}
	add := func(x *memory) *SavedMemory {
		i, ok := place[x]
		if !ok {
			i = len(s.Created)
			place[x] = i
			s.Created = append(s.Created, SavedMemory{Native: x.native, Bytes: x.bytes,
				Device: x.device, Compression: x.compression})
		}
		return &s.Created[i]
	}
	for handle, x := range m.memory {
		add(x).Handle = handle
	}
	for i := range m.mapped {
		x := add(m.mapped[i].memory)
		x.Mappings = append(x.Mappings, m.mapped[i].saved())
	}
	slices.SortFunc(s.Created, func(a, b SavedMemory) int {
		return cmp.Compare(a.Native, b.Native)
	})
	return s
}

func (x *mapped) saved() SavedMapping {
	s := SavedMapping{Base: x.Base}
	for device, access := range x.access {
		if access != gpubackend.AccessNone {
			s.Access = append(s.Access, SavedAccess{uint64(device), access})
		}
	}
	return s
}

// Handles is how many objects Restore makes.
func (m *Memory) Handles() int { return len(m.memory) }

// Restore makes saved memory again, in an empty Memory. next is told the handle that memory gets.
func (m *Memory) Restore(s *Saved, next func(handle uint64) error) error {
	for _, r := range s.Reserved {
		if result := m.reserveRange(r); result != gpubackend.Success {
			return fmt.Errorf("reserve %d bytes at %#x: %w", r.Bytes, r.Base, result.Err())
		}
	}
	for i := range s.Created {
		if err := m.restoreMemory(&s.Created[i], next); err != nil {
			return err
		}
	}
	return nil
}

// restoreMemory makes memory, and maps it where it was.
func (m *Memory) restoreMemory(s *SavedMemory, next func(handle uint64) error) error {
	x := &memory{native: s.Native, bytes: s.Bytes, device: s.Device, compression: s.Compression}
	if !x.possible() || !allowed.Compression.Has(s.Compression) ||
		s.Handle == 0 && len(s.Mappings) == 0 {
		return fmt.Errorf("%w has %d bytes that can't be there", errSaved, s.Bytes)
	}
	result := m.Driver.TakeMemory(gpubackend.CreatedMemory{Memory: gpubackend.Memory(s.Native),
		Bytes: s.Bytes, Device: s.Device, Compression: s.Compression})
	if result != gpubackend.Success {
		return fmt.Errorf("make %d bytes without an address: %w", s.Bytes, result.Err())
	}
	if s.Handle != 0 {
		if err := next(s.Handle); err != nil {
			return err
		}
		if x.uses++; m.add(x) != s.Handle {
			return fmt.Errorf("%w: %#x gets another handle", errSaved, s.Handle)
		}
	}
	for i := range s.Mappings {
		if err := m.restoreMapping(x, &s.Mappings[i]); err != nil {
			return err
		}
	}
	return nil
}

// restoreMapping maps memory, and says who may access it.
func (m *Memory) restoreMapping(x *memory, s *SavedMapping) error {
	result := m.mapAt(x, s.Base)
	for _, a := range s.Access {
		if a.Device >= ledger.GPUs || !allowed.Access.Has(a.Access) {
			return fmt.Errorf("%w has access %d of device %d", errSaved, a.Access, a.Device)
		}
		if result == gpubackend.Success {
			result = m.protect(s.Base, x.bytes, a.Device, a.Access)
		}
	}
	if result != gpubackend.Success {
		return fmt.Errorf("map %d bytes at %#x: %w", x.bytes, s.Base, result.Err())
	}
	return nil
}

// Shares says whether other processes may have memory with that number of the device's in a range.
func (m *Memory) Shares(native, bytes uint64) bool {
	for _, x := range m.exchange.numbers {
		if x.native-native < bytes {
			return true
		}
	}
	return false
}
