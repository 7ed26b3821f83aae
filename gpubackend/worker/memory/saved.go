// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
)

// Saved is all that a Memory knows. What is in the memory is saved by whoever can read it, whether
// or not it is mapped. What is another process's is taken again (Join) when all processes have
// offered what is theirs. What descriptors stand for has the same number as before (OfferAgain).
type Saved struct {
	Reserved []addresses.Range
	Created  []SavedMemory
}

// SavedMemory is memory without an address.
type SavedMemory struct {
	Native                     uint64   // the device's number
	Handles                    []uint64 `json:",omitempty"` // none: mappings keep the memory
	Bytes, Device, Compression uint64
	Mappings                   []SavedMapping
	Token                      uint64 `json:",omitempty"` // 0: it is nobody else's
	Imported                   bool   `json:",omitempty"`
	Number                     uint32 `json:",omitempty"` // under which it is exported; 0: it isn't
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
				Device: x.device, Compression: x.compression, Token: x.token,
				Imported: x.imported, Number: x.number})
		}
		return &s.Created[i]
	}
	for handle, x := range m.memory {
		y := add(x)
		y.Handles = append(y.Handles, handle)
	}
	for i := range m.mapped {
		x := add(m.mapped[i].memory)
		x.Mappings = append(x.Mappings, m.mapped[i].saved())
	}
	slices.SortFunc(s.Created, func(a, b SavedMemory) int {
		return cmp.Compare(a.Native, b.Native)
	})
	for i := range s.Created {
		slices.Sort(s.Created[i].Handles)
	}
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

// Takes says whether there is memory of other processes.
func (s *Saved) Takes() bool {
	return slices.ContainsFunc(s.Created, func(x SavedMemory) bool { return x.Imported })
}

// Lacks says why memory of other processes couldn't be taken again. The error wraps offers.ErrNone
// if nobody has it any more.
func (m *Memory) Lacks() error {
	for _, x := range m.exchange.tokens {
		if !x.imported {
			continue
		}
		_, fd, err := m.Offers.ReceiveCreated(x.token)
		if err != nil {
			return fmt.Errorf("another program's memory: %w", err)
		}
		unix.Close(fd)
	}
	return nil
}

// Restore makes saved memory again, in an empty Memory, but for that of other processes, and offers
// what others may have. next is told the handle that memory gets.
func (m *Memory) Restore(s *Saved, next func(handle uint64) error) error {
	for _, r := range s.Reserved {
		if result := m.reserveRange(r); result != gpubackend.Success {
			return fmt.Errorf("reserve %d bytes at %#x: %w", r.Bytes, r.Base, result.Err())
		}
	}
	for i := range s.Created {
		if x := &s.Created[i]; !x.Imported {
			if err := m.restoreMemory(x, next, m.makeAgain); err != nil {
				return err
			}
		}
	}
	return nil
}

// Join takes memory of other processes again, which offer it by now. The error wraps
// offers.ErrNone if nobody does.
func (m *Memory) Join(s *Saved, next func(handle uint64) error) error {
	for i := range s.Created {
		if x := &s.Created[i]; x.Imported {
			if err := m.restoreMemory(x, next, m.importAgain); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreMemory makes memory, and maps it where it was.
func (m *Memory) restoreMemory(
	s *SavedMemory, next func(handle uint64) error, take func(*memory) error,
) error {
	x := &memory{native: s.Native, bytes: s.Bytes, device: s.Device, compression: s.Compression,
		token: s.Token, imported: s.Imported, number: s.Number}
	if !x.possible() || !allowed.Compression.Has(s.Compression) ||
		len(s.Handles) == 0 && len(s.Mappings) == 0 ||
		x.imported && x.token == 0 || m.exchange.tokens[x.token] != nil ||
		x.number != 0 && (x.token == 0 || m.exchange.numbers[x.number] != nil) ||
		m.exchange.offered >= maxOffered {
		return fmt.Errorf("%w has %d bytes that can't be there", errSaved, s.Bytes)
	}
	if err := take(x); err != nil {
		return fmt.Errorf("make %d bytes without an address: %w", s.Bytes, err)
	}
	if x.number != 0 {
		m.exchange.numbers[x.number] = x
		m.Exports.GaveOut(x.number)
	}
	for _, handle := range s.Handles {
		if err := next(handle); err != nil {
			return err
		}
		if x.uses++; m.add(x) != handle {
			return fmt.Errorf("%w: %#x gets another handle", errSaved, handle)
		}
	}
	for i := range s.Mappings {
		if err := m.restoreMapping(x, &s.Mappings[i]); err != nil {
			return err
		}
	}
	return nil
}

// makeAgain makes memory of this process, and offers it if others may have it.
func (m *Memory) makeAgain(x *memory) error {
	result := m.Driver.TakeMemory(gpubackend.CreatedMemory{Memory: gpubackend.Memory(x.native),
		Bytes: x.bytes, Device: x.device, Compression: x.compression})
	if result != gpubackend.Success || x.token == 0 {
		return result.Err()
	}
	fd, result := m.Driver.ExportMemory(gpubackend.Memory(x.native))
	if result != gpubackend.Success {
		return result.Err()
	}
	defer unix.Close(fd)
	return m.openOffer(x, fd)
}

// importAgain takes memory of another process.
func (m *Memory) importAgain(x *memory) error {
	bytes, fd, err := m.Offers.ReceiveCreated(x.token)
	if err != nil {
		return fmt.Errorf("import another program's memory: %w", err)
	}
	defer unix.Close(fd)
	if bytes != x.bytes {
		return fmt.Errorf("%w: there are %d bytes", errSaved, bytes)
	}
	native, result := m.Driver.ImportMemory(fd, x.bytes, x.device)
	if result != gpubackend.Success {
		return result.Err()
	}
	x.native = uint64(native)
	m.exchange.tokens[x.token] = x
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
	for _, x := range m.exchange.tokens {
		if !x.imported && x.native-native < bytes {
			return true
		}
	}
	return false
}
