// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// shareEvent offers an event.
func (s *Sharing) shareEvent(c *call.Call, a command.IpcGetEventHandle) gpubackend.Result {
	handle := a.Event
	e, result := handles.Event(s.Objects, handle)
	if result != gpubackend.Success {
		return result
	}
	x := s.events[handle]
	if x == nil {
		open := func(text []byte, fd int) (*offers.Offer, error) {
			return s.Offers.Open(offers.Event, text, fd)
		}
		if x, result = s.offerEvent(handle, e, open); result != gpubackend.Success {
			return result
		}
	}
	c.Put(command.IpcGetEventHandleAnswer{Name: x.offer.Secret()})
	return gpubackend.Success
}

// offerEvent offers an event as open does it.
func (s *Sharing) offerEvent(
	handle uint64, e gpubackend.Event, open func(text []byte, fd int) (*offers.Offer, error),
) (*offering, gpubackend.Result) {
	if len(s.events) >= maxEvents {
		return nil, gpubackend.OutOfMemory
	}
	shared, fd, result := s.Driver.ShareEvent(e)
	if result != gpubackend.Success {
		return nil, result
	}
	offer, err := open(shared[:], fd)
	if err != nil {
		s.Log.WithError(err).Warn("share an event")
		return nil, gpubackend.OutOfMemory
	}
	x := &offering{offer: offer, context: s.Objects.Parent(handle)}
	s.events[handle] = x
	return x, gpubackend.Success
}

// openEvent opens an event that another worker offers.
func (s *Sharing) openEvent(c *call.Call, a command.IpcOpenEventHandle) gpubackend.Result {
	if !s.Objects.Room(object.Event) {
		return gpubackend.OutOfMemory
	}
	if own(s.events, a.Name) {
		return gpubackend.InvalidContext // as for memory: only between processes
	}
	e, result, err := s.receiveEvent(a.Name)
	if err != nil {
		s.Log.WithError(err).Warn("get another process's event")
	}
	if result != gpubackend.Success {
		return result
	}
	home := s.Contexts.Home(c.Context)
	handle := s.Objects.Add(object.Event, uint64(e), home)
	s.opened[handle] = taking{a.Name, home}
	c.Put(command.IpcOpenEventHandleAnswer{Event: handle})
	return gpubackend.Success
}

// receiveEvent opens an event that another worker offers, in the current context. An error says
// that it didn't give it.
func (s *Sharing) receiveEvent(
	name offers.Secret,
) (e gpubackend.Event, result gpubackend.Result, err error) {
	var shared gpubackend.SharedEvent
	text, fd, err := s.Offers.Receive(offers.Event, name, len(shared))
	if err != nil {
		return 0, gpubackend.InvalidHandle, err
	}
	if fd >= 0 {
		defer unix.Close(fd)
	}
	copy(shared[:], text)
	e, result = s.Driver.OpenEvent(shared, fd)
	return e, result, nil
}

// withdrawEvent ends the offer of an event.
func (s *Sharing) withdrawEvent(handle uint64) {
	if x := s.events[handle]; x != nil {
		x.offer.Close()
		delete(s.events, handle)
	}
}

// Steps are what this room does around the handlers of others.
func (s *Sharing) Steps() call.Steps {
	return call.Steps{gpubackend.OpEventDestroy: call.Around(command.DecodeEventDestroy,
		s.endEvent)}
}

// endEvent ends the offer of an event that is destroyed.
func (s *Sharing) endEvent(
	c *call.Call, a command.EventDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	s.withdrawEvent(a.HEvent)
	delete(s.opened, a.HEvent)
	return run(c)
}
