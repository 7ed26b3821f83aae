// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// SavedImport is memory of another process's pool, which is mapped, and what the guest has
// imported of it. A segment without pointers may be of a context that has ended.
type SavedImport struct {
	Name                    []byte // the secret
	Address, Bytes, Context uint64
	Pointers                []uint64
}

// saved are the segments that are mapped.
func (s *shares) saved() (list []SavedImport) {
	for name, x := range s.mapped {
		y := SavedImport{Name: name[:], Address: x.address, Bytes: x.bytes, Context: x.context}
		for address, of := range s.pointers {
			if of == x {
				y.Pointers = append(y.Pointers, address)
			}
		}
		slices.Sort(y.Pointers)
		list = append(list, y)
	}
	slices.SortFunc(list, func(a, b SavedImport) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

// name is the name of the segment that memory is in, if it is exported or another process's.
func (b *allocation) name() []byte {
	switch {
	case b.exported != nil:
		name := b.exported.offer.Secret()
		return name[:]
	case b.imported != nil:
		return b.imported.name[:]
	}
	return nil
}

// nameOf is a saved name.
func nameOf(saved []byte) (name offers.Secret, err error) {
	if copy(name[:], saved) != len(saved) || len(saved) != len(name) {
		return name, fmt.Errorf("%w: a name has %d bytes", errSaved, len(saved))
	}
	return name, nil
}

// offerAgain offers the segment that memory is in under the name that it had.
func (s *Pools) offerAgain(b *allocation, saved []byte) error {
	name, err := nameOf(saved)
	if err != nil {
		return err
	}
	if b.pool.token == 0 || b.pool.imported {
		return fmt.Errorf("%w: %#x is offered, of a pool that can't be shared", errSaved, b.address)
	}
	if result := s.Contexts.Set(b.context, false); result != gpubackend.Success {
		return fmt.Errorf("%w: the context of %#x: %w", errSaved, b.address, result.Err())
	}
	x, result := s.offerSegment(b, func(m gpubackend.Shared, fd int) (*offers.Offer, error) {
		return s.Offers.OpenMemoryAs(name, m, fd)
	})
	switch {
	case result != gpubackend.Success:
		return fmt.Errorf("%w: offer %#x: %w", errSaved, b.address, result.Err())
	case x.offer.Secret() != name:
		return fmt.Errorf("%w: %#x is offered under two names", errSaved, b.address)
	}
	return nil
}

// Offered is how many segments are offered.
func (s *Pools) Offered() int { return len(s.shares.offered) }

// Lacks says why memory of other processes couldn't be mapped again. The error wraps offers.ErrNone
// if nobody has it any more.
func (s *Pools) Lacks() error {
	for name := range s.shares.mapped {
		_, fd, err := s.Offers.ReceiveMemory(name)
		if err != nil {
			return fmt.Errorf("memory of another program's pool: %w", err)
		}
		unix.Close(fd)
	}
	return nil
}

// OfferAgain tells the device process of the pools that were exported before the program went on
// from a record: descriptors in the guest may stand for them.
func (s *Pools) OfferAgain() error {
	for _, p := range s.pool {
		if p == nil || p.number == 0 || p.destroyed {
			continue
		}
		if result := s.tell(p); result != gpubackend.Success {
			return fmt.Errorf("offer a pool again: %w", result.Err())
		}
	}
	return nil
}

// Takes says whether there is memory of other processes.
func (x *Saved) Takes() bool { return len(x.Mapped) > 0 }

// Join maps memory of other processes again, which offer it by now. The error wraps offers.ErrNone
// if nobody does.
func (s *Pools) Join(x *Saved) error {
	for i := range x.Mapped {
		if err := s.remap(&x.Mapped[i]); err != nil {
			return fmt.Errorf("memory of another program's pool: %w", err)
		}
	}
	for i := range x.Memory {
		if m := &x.Memory[i]; m.Pool == -1 && len(m.Name) > 0 {
			if err := s.freeAgain(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// remap maps a segment where it was, with the pointers into it.
func (s *Pools) remap(x *SavedImport) error {
	name, err := nameOf(x.Name)
	if err != nil {
		return err
	}
	if s.shares.mapped[name] != nil {
		return fmt.Errorf("%w: a segment is mapped twice", errSaved)
	}
	_, there := s.Objects.Lookup(object.Context, x.Context)
	if there && s.Contexts.Set(x.Context, false) != gpubackend.Success ||
		!there && len(x.Pointers) > 0 {
		return fmt.Errorf("%w: %#x is in no context", errSaved, x.Address)
	}
	m := &mappedSegment{name: name, address: x.Address, bytes: x.Bytes, context: x.Context}
	if err := s.receive(m); err != nil {
		return err
	}
	s.shares.mapped[name] = m
	for _, at := range x.Pointers {
		if at-x.Address >= x.Bytes || s.shares.pointers[at] != nil {
			return fmt.Errorf("%w: %#x points elsewhere, or is there twice", errSaved, at)
		}
		s.shares.pointers[at] = m
		m.pointers++
	}
	return nil
}

// receive maps what is offered under the name of a segment.
func (s *Pools) receive(m *mappedSegment) error {
	shared, fd, err := s.Offers.ReceiveMemory(m.name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if shared.Bytes != m.bytes {
		return fmt.Errorf("%w: a segment has %d bytes, want %d", errSaved, shared.Bytes, m.bytes)
	}
	if result := s.Driver.TakeShared(m.address, shared, fd); result != gpubackend.Success {
		return fmt.Errorf("%w: map %d bytes at %#x: %w", errSaved, m.bytes, m.address, result.Err())
	}
	return nil
}

// freeAgain is a pointer that was freed in a stream.
func (s *Pools) freeAgain(x *SavedMemory) error {
	name, err := nameOf(x.Name)
	if err != nil {
		return err
	}
	m := s.shares.mapped[name]
	if m == nil || x.Address-m.address >= m.bytes || len(s.loose) >= maxLoose {
		return fmt.Errorf("%w: %#x, which was freed, points nowhere", errSaved, x.Address)
	}
	m.pointers++
	s.loose = append(s.loose, &allocation{address: x.Address, context: x.Context, stream: x.Stream,
		imported: m})
	return nil
}
