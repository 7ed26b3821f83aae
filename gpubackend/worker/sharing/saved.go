// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// Saved is all that a Sharing knows. What processes share is made again in two steps: each worker
// offers what is its own (Restore), under the names that the guest has handed on, and when all have
// done so, each takes what it had of others (Join). So it doesn't matter who has what of whom.
type Saved struct {
	Memory, Events []SavedShare // what is offered
	Mapped, Opened []SavedShare // what is another process's
}

// SavedShare is memory, by its address, or an event, by its handle.
type SavedShare struct {
	Of      uint64
	Name    []byte // the secret
	Context uint64
}

var errSaved = errors.New("what the program shares with others")

// Save returns all of that.
func (s *Sharing) Save() Saved {
	return Saved{
		Memory: savedOffers(s.offered), Events: savedOffers(s.events),
		Mapped: savedTakings(s.mapped), Opened: savedTakings(s.opened),
	}
}

func savedOffers(of map[uint64]*offering) (list []SavedShare) {
	for h, x := range of {
		name := x.offer.Secret()
		list = append(list, SavedShare{h, name[:], x.context})
	}
	return sorted(list)
}

func savedTakings(of map[uint64]taking) (list []SavedShare) {
	for h, x := range of {
		list = append(list, SavedShare{h, x.name[:], x.context})
	}
	return sorted(list)
}

func sorted(list []SavedShare) []SavedShare {
	slices.SortFunc(list, func(a, b SavedShare) int { return cmp.Compare(a.Of, b.Of) })
	return list
}

// Takes says whether there is something of another process's.
func (x *Saved) Takes() bool { return len(x.Mapped)+len(x.Opened) > 0 }

// Opened says whether an event is another process's.
func (s *Sharing) Opened(handle uint64) bool {
	_, ok := s.opened[handle]
	return ok
}

// Handles is how many objects Join makes.
func (s *Sharing) Handles() int { return len(s.opened) }

// Lacks says why what this process has of others couldn't be made again. The error wraps
// offers.ErrNone if nobody has it any more.
func (s *Sharing) Lacks() error {
	for _, x := range s.mapped {
		_, fd, err := s.Offers.ReceiveMemory(x.name)
		if err != nil {
			return fmt.Errorf("another program's memory: %w", err)
		}
		unix.Close(fd)
	}
	for _, x := range s.opened {
		_, fd, err := s.Offers.Receive(offers.Event, x.name, len(gpubackend.SharedEvent{}))
		if err != nil {
			return fmt.Errorf("another program's event: %w", err)
		}
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// Restore offers again what was offered, in a Sharing that offers nothing. The memory and the
// events are there already.
func (s *Sharing) Restore(x *Saved) error {
	if len(x.Memory) > maxMemory || len(x.Events) > maxEvents {
		return fmt.Errorf("%w: it offers %d pieces of memory and %d events", errSaved,
			len(x.Memory), len(x.Events))
	}
	if err := s.each(x.Memory, s.restoreMemory); err != nil {
		return err
	}
	return s.each(x.Events, s.restoreEvent)
}

// each calls do for each of them, with its name, in its context.
func (s *Sharing) each(
	list []SavedShare, do func(x *SavedShare, name offers.Secret) error,
) error {
	seen := make(map[uint64]bool, len(list))
	for i := range list {
		x := &list[i]
		var name offers.Secret
		if copy(name[:], x.Name) != len(name) || len(x.Name) != len(name) || seen[x.Of] {
			return fmt.Errorf("%w: %#x has a name of %d bytes, or is there twice", errSaved, x.Of,
				len(x.Name))
		}
		seen[x.Of] = true
		if _, ok := s.Objects.Lookup(object.Context, x.Context); !ok {
			return fmt.Errorf("%w: %#x is in no context", errSaved, x.Of)
		}
		if result := s.Contexts.Set(x.Context, false); result != gpubackend.Success {
			return fmt.Errorf("%w: the context of %#x: %w", errSaved, x.Of, result.Err())
		}
		if err := do(x, name); err != nil {
			return fmt.Errorf("%w: %#x: %w", errSaved, x.Of, err)
		}
	}
	return nil
}

func (s *Sharing) restoreMemory(x *SavedShare, name offers.Secret) error {
	_, result := s.offerMemory(x.Of, func(m gpubackend.Shared, fd int) (*offers.Offer, error) {
		return s.Offers.OpenMemoryAs(name, m, fd)
	})
	return result.Err()
}

func (s *Sharing) restoreEvent(x *SavedShare, name offers.Secret) error {
	e, result := handles.Event(s.Objects, x.Of)
	if result != gpubackend.Success {
		return result.Err()
	}
	_, result = s.offerEvent(x.Of, e, func(text []byte, fd int) (*offers.Offer, error) {
		return s.Offers.OpenAs(name, offers.Event, text, fd)
	})
	return result.Err()
}

// Join takes again what others had offered, when all offer it again. next is told the handle that
// an event gets. The error wraps offers.ErrNone if nobody does.
func (s *Sharing) Join(x *Saved, next func(handle uint64) error) error {
	if err := s.each(x.Mapped, s.remap); err != nil {
		return err
	}
	return s.each(x.Opened, func(x *SavedShare, name offers.Secret) error {
		return s.reopen(x, name, next)
	})
}

// remap maps memory of another process where it was.
func (s *Sharing) remap(x *SavedShare, name offers.Secret) error {
	shared, fd, err := s.Offers.ReceiveMemory(name)
	if err != nil {
		return fmt.Errorf("map another program's memory: %w", err)
	}
	defer unix.Close(fd)
	if result := s.Driver.TakeShared(x.Of, shared, fd); result != gpubackend.Success {
		return result.Err()
	}
	s.mapped[x.Of] = taking{name, x.Context}
	return nil
}

// reopen opens an event of another process, with the handle that it had.
func (s *Sharing) reopen(
	x *SavedShare, name offers.Secret, next func(handle uint64) error,
) error {
	e, result, err := s.receiveEvent(name)
	switch {
	case err != nil:
		return fmt.Errorf("open another program's event: %w", err)
	case result != gpubackend.Success:
		return result.Err()
	}
	if err := next(x.Of); err != nil {
		return err
	}
	if s.Objects.Add(object.Event, uint64(e), x.Context) != x.Of {
		return errors.New("it gets another handle")
	}
	s.opened[x.Of] = taking{name, x.Context}
	return nil
}
