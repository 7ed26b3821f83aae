// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/object"
)

// Saved is all that Pools know, without the device's handles and fences. What is another process's
// is mapped again (Join) when all processes have offered what is theirs.
type Saved struct {
	Pools    []SavedPool
	Defaults map[uint64]uint64 // device to the handle of its default pool
	Memory   []SavedMemory
	Mapped   []SavedImport `json:",omitempty"`
	Access   []SavedReach  `json:",omitempty"`
}

// SavedPool is a pool, or a place where one was: then it has no attributes.
type SavedPool struct {
	Handle          uint64 // 0: it was destroyed
	Device, Largest uint64
	Attributes      []uint64
	Token           uint64 `json:",omitempty"` // 0: it can't be shared
	Imported        bool   `json:",omitempty"`
	Number          uint32 `json:",omitempty"` // under which it is exported; 0: it isn't
}

// SavedMemory is memory of a pool, or ordinary memory that was freed in a stream.
type SavedMemory struct {
	Pool                            int // by its number; -1: none
	Address, Bytes, Context, Stream uint64
	Free                            bool
	// Name is the secret of the segment in which it is offered, or of another process's into which
	// it points.
	Name []byte `json:",omitempty"`
}

var (
	errBusy  = errors.New("memory that was freed in a stream is still in use")
	errSaved = errors.New("the saved memory pools")
)

// Save returns all of that. All work must be done.
func (s *Pools) Save() (*Saved, error) {
	saved := &Saved{Defaults: s.defaults, Mapped: s.shares.saved(),
		Access: s.savedAccess()}
	numbers := map[*pool]int{nil: -1}
	handles := map[uint64]uint64{}
	for h, i := range s.Objects.All(object.Pool) {
		handles[i] = h
	}
	for i, p := range s.pool {
		x := SavedPool{}
		if p != nil {
			numbers[p] = i
			x = SavedPool{handles[uint64(i)], p.device, p.largest, p.attribute[:],
				p.token, p.imported, p.number}
		}
		saved.Pools = append(saved.Pools, x)
	}
	for _, b := range s.live {
		saved.Memory = append(saved.Memory, b.saved(numbers, false))
	}
	lists := [][]*allocation{s.loose}
	for _, p := range s.pool {
		if p != nil {
			lists = append(lists, p.free)
		}
	}
	for _, list := range lists {
		for _, b := range list {
			if !s.idle(b) {
				return nil, errBusy
			}
			saved.Memory = append(saved.Memory, b.saved(numbers, true))
		}
	}
	return saved, nil
}

func (b *allocation) saved(numbers map[*pool]int, free bool) SavedMemory {
	return SavedMemory{numbers[b.pool], b.address, b.bytes, b.context, b.stream, free, b.name()}
}

// Restore makes saved pools again, in empty Pools, but for memory of other processes, and offers
// what others may have. next is told the handle that a pool gets. The device has the memory
// already.
func (s *Pools) Restore(saved *Saved, next func(handle uint64) error) error {
	if len(saved.Pools) > MaxPools {
		return fmt.Errorf("%w: there are %d", errSaved, len(saved.Pools))
	}
	for i := range saved.Pools {
		if err := s.restorePool(uint64(i), &saved.Pools[i], next); err != nil {
			return err
		}
	}
	for device, h := range saved.Defaults {
		if _, ok := s.Objects.Lookup(object.Pool, h); !ok {
			return fmt.Errorf("%w: %#x is none", errSaved, h)
		}
		s.defaults[device] = h
	}
	if err := s.restoreAccess(saved.Access); err != nil {
		return err
	}
	for i := range saved.Memory {
		if err := s.restoreMemory(&saved.Memory[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Pools) restorePool(i uint64, x *SavedPool, next func(handle uint64) error) error {
	if len(x.Attributes) == 0 && x.Handle == 0 {
		s.pool = append(s.pool, nil)
		return nil
	}
	p := &pool{device: x.Device, largest: x.Largest, destroyed: x.Handle == 0, token: x.Token,
		imported: x.Imported, number: x.Number}
	if copy(p.attribute[:], x.Attributes) != len(p.attribute) ||
		len(x.Attributes) != len(p.attribute) {
		return fmt.Errorf("%w: %d has %d attributes", errSaved, i, len(x.Attributes))
	}
	if p.token == 0 && (p.imported || p.number != 0) || p.imported && p.number != 0 {
		return fmt.Errorf("%w: %d is nobody's, or another's", errSaved, i)
	}
	if p.number != 0 {
		s.Exports.GaveOut(p.number)
	}
	s.pool = append(s.pool, p)
	if p.destroyed {
		return nil
	}
	if err := next(x.Handle); err != nil {
		return err
	}
	if s.Objects.Add(object.Pool, i, 0) != x.Handle {
		return fmt.Errorf("%w: %#x gets another handle", errSaved, x.Handle)
	}
	return nil
}

func (s *Pools) restoreMemory(x *SavedMemory) error {
	var p *pool
	if x.Pool >= 0 && x.Pool < len(s.pool) {
		p = s.pool[x.Pool]
	}
	b := &allocation{pool: p, address: x.Address, bytes: x.Bytes, context: x.Context,
		stream: x.Stream}
	switch {
	case p == nil && (x.Pool != -1 || !x.Free):
		return fmt.Errorf("%w: memory at %#x is of none", errSaved, x.Address)
	case p == nil && len(x.Name) > 0:
		return nil // another process's: Join makes it
	case p == nil:
		s.loose = append(s.loose, b)
	case x.Free:
		p.free = append(p.free, b)
	default:
		s.live[b.address] = b
	}
	if len(x.Name) == 0 {
		return nil
	}
	return s.offerAgain(b, x.Name)
}
