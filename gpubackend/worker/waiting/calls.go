// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// Handlers are the commands that wait.
func (s *Waiting) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpCtxSynchronize: call.Decoded(command.DecodeCtxSynchronize,
			s.synchronizeContext),
		gpubackend.OpStreamSynchronize: call.Decoded(command.DecodeStreamSynchronize,
			s.synchronizeStream),
		gpubackend.OpEventSynchronize: call.Decoded(command.DecodeEventSynchronize,
			s.synchronizeEvent),
	}
}

// Steps are around commands that end what calls wait for, and around a question that is asked after
// a wait.
func (s *Waiting) Steps() call.Steps {
	return call.Steps{
		gpubackend.OpStreamQuery:   s.queryStream,
		gpubackend.OpStreamDestroy: call.Around(command.DecodeStreamDestroy, s.endStream),
		gpubackend.OpEventDestroy:  call.Around(command.DecodeEventDestroy, s.endEvent),
	}
}

func (s *Waiting) synchronizeContext(c *call.Call, _ command.CtxSynchronize) gpubackend.Result {
	return s.synchronize(c, forContext, 0)
}

func (s *Waiting) synchronizeStream(c *call.Call, a command.StreamSynchronize) gpubackend.Result {
	stream, result := s.Streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	return s.synchronize(c, forStream, uint64(stream))
}

func (s *Waiting) synchronizeEvent(c *call.Call, a command.EventSynchronize) gpubackend.Result {
	e, result := handles.Event(s.Objects, a.Event)
	if result != gpubackend.Success {
		return result
	}
	return s.wait(c, forEvent, uint64(e))
}

// endStream ends a stream, and endEvent an event. Other threads may still wait for them.
func (s *Waiting) endStream(
	c *call.Call, a command.StreamDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	stream, _ := s.Streams.Find(c, a.HStream)
	result := run(c)
	if result == gpubackend.Success {
		s.widen(forStream, uint64(stream))
	}
	return result
}

func (s *Waiting) endEvent(
	c *call.Call, a command.EventDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	e, _ := handles.Event(s.Objects, a.HEvent)
	result := run(c)
	if result == gpubackend.Success {
		s.widen(forEvent, uint64(e))
	}
	return result
}

// queryStream is StreamQuery, after a look at the answers that the device has written: a thread
// that has got one must not be told that the stream isn't ready.
func (s *Waiting) queryStream(
	c *call.Call, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	s.PollAll()
	if result := s.Contexts.Set(c.Context, false); result != gpubackend.Success {
		return result
	}
	return run(c)
}
