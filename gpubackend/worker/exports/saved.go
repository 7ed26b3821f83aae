// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// A program that is saved may have been told the number of an import that it hasn't named yet, and
// may never name it. What waits for that goes along in the program's record. Memory is found again
// by its token, when all programs go on.

// Saved is an object that was handed over, but not yet named.
type Saved struct {
	Import uint32 // by which it will be named
	Kind   handover.ObjectKind
	Device uint64 // its GPU, by this process's number
	Bytes  uint64 // of memory
	Token  uint64
	Own    uint32 `json:",omitempty"` // its number, if this process has exported it; 0: it hasn't
}

var errSaved = errors.New("what the program imports")

// Save returns what waits. Objects of GPUs that this process doesn't see are left out: they would
// be refused in any case.
func (s *Exports) Save() (list []Saved) {
	gpus := s.gpus()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.waiting {
		device := slices.Index(gpus, x.GPU)
		if device < 0 {
			continue
		}
		y := Saved{Import: x.Import, Kind: x.Kind, Device: uint64(device), Bytes: x.Bytes,
			Token: x.Token}
		if x.Own {
			y.Own = x.Number
		}
		list = append(list, y)
	}
	slices.SortFunc(list, func(a, b Saved) int { return cmp.Compare(a.Import, b.Import) })
	return list
}

// Lacks says why what waits couldn't be had again. The error wraps offers.ErrNone if nobody has it
// any more.
func (s *Exports) Lacks() error {
	for _, x := range s.Save() {
		fd, err := s.find(&x)
		if err != nil {
			return err
		}
		handover.CloseFiles([]int{fd})
	}
	return nil
}

// find finds an object, and returns its file or -1.
func (s *Exports) find(x *Saved) (file int, err error) {
	if x.Token == 0 || x.Kind != handover.ObjectMemory && x.Kind != handover.ObjectPool {
		return -1, fmt.Errorf("%w can't be found again", errSaved)
	}
	if x.Kind == handover.ObjectPool {
		return -1, nil
	}
	bytes, file, err := s.receive(x.Token)
	switch {
	case err != nil:
		return -1, fmt.Errorf("%w: %w", errSaved, err)
	case bytes != x.Bytes:
		unix.Close(file)
		return -1, fmt.Errorf("%w has %d bytes, want %d", errSaved, bytes, x.Bytes)
	}
	return file, nil
}

// Join has saved objects wait again, which others offer by now. What nobody offers any more is left
// out: the program is told so when it names it.
func (s *Exports) Join(list []Saved) error {
	if len(list) > MaxWaiting {
		return fmt.Errorf("%w is more than it may be: %d objects", errSaved, len(list))
	}
	gpus := s.gpus()
	for i := range list {
		x := &list[i]
		if x.Device >= uint64(len(gpus)) {
			return fmt.Errorf("%w is of GPU %d", errSaved, x.Device)
		}
		file, err := s.find(x)
		switch {
		case errors.Is(err, offers.ErrNone):
			continue
		case err != nil:
			return err
		}
		s.mu.Lock()
		s.wait(Imported{File: file, Object: handover.Object{Kind: x.Kind, Number: x.Own,
			Bytes: x.Bytes, GPU: gpus[x.Device], Token: x.Token, Own: x.Own != 0,
			Import: x.Import}})
		s.mu.Unlock()
	}
	return nil
}
