// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// CtxRecordEvent implements gpubackend.Driver. The primary context's green contexts are parts of
// it.
func (x *Streams) CtxRecordEvent(h gpubackend.Context, e gpubackend.Event) gpubackend.Result {
	c, g, result := x.options.Contexts.Find(uint64(h))
	if result != gpubackend.Success {
		return result
	}
	return x.RecordAll(e, c, g)
}

// CtxWaitEvent implements gpubackend.Driver.
func (x *Streams) CtxWaitEvent(h gpubackend.Context, e gpubackend.Event) gpubackend.Result {
	c, g, result := x.options.Contexts.Find(uint64(h))
	if result != gpubackend.Success {
		return result
	}
	return x.WaitAll(e, c, g)
}

// Busy says whether streams of a green context have work.
func (x *Streams) Busy(g *contexts.Green) bool {
	for _, s := range x.setOf(g.Context).list {
		if s.group.green == g && !x.options.Scheduler.IsDone(s.last) {
			return true
		}
	}
	return false
}

// chosen returns the streams of a context, or of the green context, after checking the event.
func (x *Streams) chosen(
	h gpubackend.Event, c *contexts.Context, g *contexts.Green,
) (*event, []*Stream, gpubackend.Result) {
	e, result := x.event(h)
	switch {
	case result != gpubackend.Success:
		return nil, nil, result
	case e.ctx != c:
		return nil, nil, gpubackend.InvalidHandle
	case !x.options.Scheduler.Throttle():
		return nil, nil, gpubackend.OutOfMemory
	}
	set := x.setOf(c)
	x.forget(set)
	streams := slices.DeleteFunc(append(slices.Clone(set.list), set.whole.legacy),
		func(s *Stream) bool {
			return g != nil && s.group.green != g
		})
	for _, s := range streams {
		if s.capture != nil {
			s.capture.bad = true
			result = gpubackend.StreamCaptureUnsupported
		}
	}
	return e, streams, result
}

// RecordAll records an event behind all work in some streams.
func (x *Streams) RecordAll(
	h gpubackend.Event, c *contexts.Context, g *contexts.Green,
) gpubackend.Result {
	e, streams, result := x.chosen(h, c, g)
	if result != gpubackend.Success {
		return result
	}
	lasts := make([]*scheduler.Task, 0, len(streams))
	for _, s := range streams {
		lasts = append(lasts, s.last)
	}
	e.capture, e.nodes = nil, nil
	t := e.newRecord()
	t.Domain = c.Domain
	x.options.Scheduler.Submit(t, lasts)
	return gpubackend.Success
}

// WaitAll makes some streams wait for an event.
func (x *Streams) WaitAll(
	h gpubackend.Event, c *contexts.Context, g *contexts.Green,
) gpubackend.Result {
	e, streams, result := x.chosen(h, c, g)
	if result != gpubackend.Success {
		return result
	}
	if e.capture != nil {
		e.capture.bad = true
		return gpubackend.CapturedEvent
	}
	for _, s := range streams {
		if s.destroyed {
			continue
		}
		if t, after := e.newWait(); t != nil {
			x.Enqueue(s, t, after)
		}
	}
	return gpubackend.Success
}
