// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// retake takes over the memory that the program had, and the times of its events.
func (s *Saving) retake(x *saved.State) error {
	for _, a := range x.Allocations {
		result := s.Contexts.Set(a.Context, false)
		if result == gpubackend.Success {
			result = s.Driver.TakeAllocation(
				gpubackend.Allocation{Address: a.Address, Bytes: a.Bytes})
		}
		if result != gpubackend.Success {
			return fmt.Errorf("take %d bytes at %#x: %w", a.Bytes, a.Address, result.Err())
		}
	}
	var times []gpubackend.EventTime
	for _, t := range x.Events {
		e, ok := s.Objects.Lookup(object.Event, t.Event)
		if !ok {
			return fmt.Errorf("%w: %#x is no event", saved.ErrRecord, t.Event)
		}
		c := uint64(0)
		if t.Context != 0 {
			if c, ok = s.Objects.Lookup(object.Context, t.Context); !ok {
				return fmt.Errorf("%w: %#x is no context", saved.ErrRecord, t.Context)
			}
		}
		times = append(times, gpubackend.EventTime{Event: gpubackend.Event(e), Ago: t.Ago,
			Context: gpubackend.Context(c)})
	}
	if result := s.Driver.SetEventTimes(times); result != gpubackend.Success {
		return fmt.Errorf("set the events' times: %w", result.Err())
	}
	return nil
}

// reload fills device memory with its content.
func (s *Saving) reload(r *record.Reader, x *saved.State, ahead Image) error {
	if _, err := savedvm.Next(r, savedvm.SameName, 0); err != nil { // all memory is here
		return err
	}
	n, err := savedvm.Next(r, savedvm.MemoryName, 1<<62)
	if err != nil {
		return err
	}
	if x.Ahead != (ahead != nil) || !x.Ahead && len(x.Changed) > 0 {
		return fmt.Errorf("%w: it says otherwise whether memory was copied ahead",
			saved.ErrRecord)
	}
	pieces := x.Pieces
	if x.Ahead {
		pieces = x.Changed
	}
	if n != gpubackend.PieceBytes(pieces) {
		return fmt.Errorf("%w: it has %d bytes of device memory, not %d", saved.ErrRecord, n,
			gpubackend.PieceBytes(pieces))
	}
	if x.Ahead {
		if err := s.reloadAhead(x, ahead); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	return s.DeviceMemory.Fill(pieces, r)
}
