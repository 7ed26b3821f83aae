// SPDX-License-Identifier: Apache-2.0

// Package fences marks points in streams, by events of the worker's own, which are reused.
//
// The worker's loop owns a Fences. A Fence belongs to its maker, until Passed returns anything but
// NotReady, or Drop ends it. The guest sees neither.
package fences

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Driver is what Fences uses of gpubackend.Driver.
type Driver interface {
	EventCreate(flags uint64) (gpubackend.Event, gpubackend.Result)
	EventRecordWithFlags(e gpubackend.Event, s gpubackend.Stream, flags uint64) gpubackend.Result
	EventQuery(e gpubackend.Event) gpubackend.Result
}

// Contexts says which context an event is made in, and makes it current.
type Contexts interface {
	HomeOfCurrent() uint64
	Set(handle uint64, optional bool) gpubackend.Result
}

// Fence is a point in a stream.
type Fence struct {
	context uint64
	event   gpubackend.Event
}

// Interface is what those who mark points use of a Fences.
type Interface interface {
	Mark(s gpubackend.Stream) (Fence, gpubackend.Result)
	Passed(f Fence) gpubackend.Result
	Drop(f Fence)
}

// Fences has the unused events of each context.
type Fences struct {
	driver   Driver
	contexts Contexts
	free     map[uint64][]gpubackend.Event
}

// New returns a Fences without events.
func New(d Driver, c Contexts) *Fences {
	return &Fences{driver: d, contexts: c, free: map[uint64][]gpubackend.Event{}}
}

// Mark marks the end of what is queued in a stream of the current context.
func (s *Fences) Mark(stream gpubackend.Stream) (Fence, gpubackend.Result) {
	f := Fence{context: s.contexts.HomeOfCurrent()}
	free := s.free[f.context]
	if n := len(free); n > 0 {
		f.event = free[n-1]
		s.free[f.context] = free[:n-1]
	} else {
		e, result := s.driver.EventCreate(cudaabi.EventDisableTiming)
		if result != gpubackend.Success {
			return f, result
		}
		f.event = e
	}
	result := s.driver.EventRecordWithFlags(f.event, stream, 0)
	if result != gpubackend.Success {
		s.Drop(f)
	}
	return f, result
}

// Passed asks whether the stream has got to a fence. Any answer but NotReady ends the fence's life.
func (s *Fences) Passed(f Fence) gpubackend.Result {
	if result := s.contexts.Set(f.context, true); result != gpubackend.Success {
		return result
	}
	result := s.driver.EventQuery(f.event)
	if result != gpubackend.NotReady {
		s.Drop(f)
	}
	return result
}

// Drop ends a fence that isn't needed any more.
func (s *Fences) Drop(f Fence) { s.free[f.context] = append(s.free[f.context], f.event) }

// Forget drops the events of a context that is gone.
func (s *Fences) Forget(context uint64) { delete(s.free, context) }
