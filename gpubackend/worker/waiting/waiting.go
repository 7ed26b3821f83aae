// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
)

// Driver is what a Waiting uses of gpubackend.Driver.
type Driver interface {
	ContextQuery() gpubackend.Result
	StreamQuery(s gpubackend.Stream) gpubackend.Result
	EventQuery(e gpubackend.Event) gpubackend.Result
	Announce(s gpubackend.Stream, context bool, address uint64, value uint32) gpubackend.Result
	Announced(address uint64, value uint32) bool
	HostRegister(addr, bytes uint64, writable bool) gpubackend.Result
}

// Contexts makes the context of a call current.
type Contexts interface {
	Set(handle uint64, optional bool) gpubackend.Result
}

// Fences marks points in streams.
type Fences interface {
	Mark(s gpubackend.Stream) (fences.Fence, gpubackend.Result)
	Passed(f fences.Fence) gpubackend.Result
}

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Arena is the part of the arena in which calls are answered.
type Arena interface {
	Prepare(slot uint16) (done []byte, ok bool)
	Address(b []byte) uint64
	SlotArea() []byte
	Answered(slot uint16, seq uint32) bool
}

// Gate says whether the device may be given the writing of an answer.
type Gate interface{ MayAnnounce() bool }

// Config is what a Waiting needs.
type Config struct {
	Driver   Driver
	Contexts Contexts
	Fences   Fences
	Streams  Streams
	Objects  *object.Table
	Arena    func() Arena
	Gate     Gate

	// Finish gives the guest the result of a call.
	Finish func(slot uint16, seq uint32, reply bool, result gpubackend.Result, words []uint64)
	// WakeGuest wakes the guest's sleeping threads, after the device has written an answer.
	WakeGuest func()
	// Ended is told that work has ended.
	Ended func()
	// PollAll looks at everything that is under way, and polls.
	PollAll func()
}

// Waiting are the calls that wait.
type Waiting struct {
	Config
	calls     []waiter
	announcer announcer
}

// waiter is a call that waits.
type waiter struct {
	kind    kind
	slot    uint16
	seq     uint32
	reply   bool
	context uint64
	native  uint64 // stream or event
	fence   fences.Fence
	work    call.Work // for forWork
	// announced: the device writes the answer itself
	announced bool
	done      uint64 // to this address
	// what the call does after the wait, which gives its answer
	then   func() (word uint64, result gpubackend.Result)
	anyway bool // also when the work has failed
}

// kind is what a call waits for.
type kind uint8

const (
	forContext kind = iota
	forStream
	forEvent
	forFence
	forWork
)

// Most bounds the calls that wait: each thread of the guest has one, and a few parts of a copy.
const Most = 16 * wire.SlotCount

// New returns a Waiting in which no call waits.
func New(c Config) *Waiting { return &Waiting{Config: c} }

// Len is how many calls wait.
func (s *Waiting) Len() int { return len(s.calls) }

// Full says whether as many wait as may: then no command is executed until some are over.
func (s *Waiting) Full() bool { return len(s.calls) >= Most }

func newWaiter(c *call.Call, kind kind, native uint64) waiter {
	return waiter{
		kind: kind, slot: c.Slot, seq: c.Seq, reply: c.Reply(), context: c.Context, native: native,
	}
}

// wait makes a call wait, unless its wait is over already.
func (s *Waiting) wait(c *call.Call, kind kind, native uint64) gpubackend.Result {
	x := newWaiter(c, kind, native)
	if result := s.query(&x); result != gpubackend.NotReady {
		s.Ended()
		return result
	}
	s.calls = append(s.calls, x)
	return call.Pending
}

// synchronize makes a call wait, as wait does, and makes the device announce the end if it can.
// Usually the work was queued just now: asking whether it is done would only delay the
// announcement.
func (s *Waiting) synchronize(c *call.Call, kind kind, native uint64) gpubackend.Result {
	x := newWaiter(c, kind, native)
	if x.announced = s.announce(&x); x.announced {
		s.calls = append(s.calls, x)
		return call.Pending
	}
	return s.wait(c, kind, native)
}

// Synchronize makes a call wait for all work of a stream.
func (s *Waiting) Synchronize(c *call.Call, stream gpubackend.Stream) gpubackend.Result {
	return s.synchronize(c, forStream, uint64(stream))
}

// WhenDone makes a call wait for what is in a stream now. The device announces the end if it can.
func (s *Waiting) WhenDone(c *call.Call, stream gpubackend.Stream) (result gpubackend.Result) {
	x := newWaiter(c, forStream, uint64(stream))
	if x.announced = s.announce(&x); !x.announced {
		x.kind = forFence
		if x.fence, result = s.Fences.Mark(stream); result != gpubackend.Success {
			return result
		}
	}
	s.calls = append(s.calls, x)
	return call.Pending
}

// Await makes a call wait for work of another room.
func (s *Waiting) Await(c *call.Call, work call.Work) gpubackend.Result {
	x := newWaiter(c, forWork, 0)
	x.work = work
	s.calls = append(s.calls, x)
	return call.Pending
}

// WhenIdle makes a call wait for the work of its context and then do something.
func (s *Waiting) WhenIdle(
	c *call.Call, then func() (uint64, gpubackend.Result),
) gpubackend.Result {
	result := s.wait(c, forContext, 0)
	switch {
	case result == call.Pending:
		s.calls[len(s.calls)-1].then = then
		return call.Pending
	case result != gpubackend.Success && c.Context != 0:
		return result
	}
	word, result := then()
	c.Answer(word)
	return result
}

// widen makes calls that wait for something that is gone wait for all of their context: the driver
// must not be asked about it again.
func (s *Waiting) widen(kind kind, native uint64) {
	for i := range s.calls {
		if x := &s.calls[i]; x.kind == kind && x.native == native {
			x.kind = forContext
		}
	}
}
