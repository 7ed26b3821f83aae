// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// maxSharedEvents bounds the sockets and goroutines that a guest can make a worker have.
const maxSharedEvents = 1 << 10

// runIpcShareEvent offers an event.
func (w *Worker) runIpcShareEvent(c *call.Call, a command.IpcGetEventHandle) gpubackend.Result {
	handle := a.Event
	e, result := handles.Event(&w.objects, handle)
	if result != gpubackend.Success {
		return result
	}
	s := w.shares.events[handle]
	if s == nil {
		if s, result = w.offerEvent(handle, e); result != gpubackend.Success {
			return result
		}
	}
	c.Put(command.IpcGetEventHandleAnswer{Name: s.token})
	return gpubackend.Success
}

func (w *Worker) offerEvent(handle uint64, e gpubackend.Event) (*share, gpubackend.Result) {
	if len(w.shares.events) >= maxSharedEvents {
		return nil, gpubackend.OutOfMemory
	}
	shared, fd, result := w.driver.ShareEvent(e)
	if result != gpubackend.Success {
		return nil, result
	}
	s := &share{offer: offer{text: shared[:], fd: fd}, context: w.objects.Parent(handle)}
	if err := s.open(offersEvent); err != nil {
		w.log.WithError(err).Warn("share an event")
		return nil, gpubackend.OutOfMemory
	}
	if w.shares.events == nil {
		w.shares.events = map[uint64]*share{}
	}
	w.shares.events[handle] = s
	return s, gpubackend.Success
}

// runIpcOpenEvent opens an event that another worker offers.
func (w *Worker) runIpcOpenEvent(c *call.Call, a command.IpcOpenEventHandle) gpubackend.Result {
	if !w.objects.Room(object.Event) {
		return gpubackend.OutOfMemory
	}
	if own(w.shares.events, a.Name) {
		return gpubackend.InvalidContext // as for memory: between processes
	}
	var shared gpubackend.SharedEvent
	text, fd, err := receive(offersEvent, a.Name[:], len(shared))
	if err != nil {
		w.log.WithError(err).Warn("get another process's event")
		return gpubackend.InvalidHandle
	}
	if fd >= 0 {
		defer unix.Close(fd)
	}
	copy(shared[:], text)
	e, result := w.driver.OpenEvent(shared, fd)
	if result != gpubackend.Success {
		return result
	}
	c.Put(command.IpcOpenEventHandleAnswer{Event: w.objects.Add(object.Event, uint64(e), w.contexts.Home(c.Context))})
	return gpubackend.Success
}

func (s *shares) withdrawEvent(handle uint64) {
	if x := s.events[handle]; x != nil {
		_ = x.listener.Close()
		delete(s.events, handle)
	}
}
