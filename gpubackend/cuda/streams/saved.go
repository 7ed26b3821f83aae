// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
)

// To the driver, an event that was recorded in another process was never recorded: nobody waits for
// it. But programs ask for its time. So the times of such events are kept as numbers, relative to
// an event that was recorded here. The driver is always asked first: it knows the event once it is
// recorded again.

// past are the events of a context that were recorded in another process.
type past struct {
	now gpubackend.Event           // recorded here, after which all begins
	ago map[gpubackend.Event]int64 // nanoseconds before it
}

// EventTimes implements gpubackend.Driver. All is idle.
func (x *Streams) EventTimes(events []gpubackend.Event) (list []gpubackend.EventTime) {
	for c := range x.contexts.All() {
		if c.Base != nil || !c.Exists() || c.Dead() != gpubackend.Success {
			continue
		}
		x.contexts.In(c, func() gpubackend.Result {
			list = append(list, x.timesIn(c, events)...)
			return gpubackend.Success
		})
	}
	return list
}

// timesIn returns the times of the current context's events.
func (x *Streams) timesIn(
	c *contexts.Context, events []gpubackend.Event,
) (list []gpubackend.EventTime) {
	now, r := x.recordedNow()
	if r != gpubackend.Success {
		return nil
	}
	defer x.calls.EventDestroy(now)
	for _, e := range events {
		if ns, r := x.EventElapsed(e, now); r == gpubackend.Success {
			list = append(list, gpubackend.EventTime{Event: e, Ago: int64(ns), Context: c.Handle})
		}
	}
	x.refine(list)
	return list
}

// refine makes times exact, since the driver measures short ones more exactly than long ones: from
// the last event back, each gets the driver's distance to the next one.
func (x *Streams) refine(list []gpubackend.EventTime) {
	slices.SortFunc(list, func(a, b gpubackend.EventTime) int { return cmp.Compare(a.Ago, b.Ago) })
	for i := 1; i < len(list); i++ {
		ns, r := x.EventElapsed(list[i].Event, list[i-1].Event)
		if r == gpubackend.Success {
			list[i].Ago = list[i-1].Ago + int64(ns)
		}
	}
}

// recordedNow is a new event of the current context, recorded and complete.
func (x *Streams) recordedNow() (gpubackend.Event, gpubackend.Result) {
	e, r := x.calls.EventCreate(0)
	if r != gpubackend.Success {
		return 0, r
	}
	if r = x.calls.EventRecordWithFlags(e, 0, 0); r == gpubackend.Success {
		r = x.calls.EventSynchronize(e)
	}
	if r != gpubackend.Success {
		x.calls.EventDestroy(e)
		return 0, r
	}
	return e, r
}

// SetEventTimes implements gpubackend.Driver.
func (x *Streams) SetEventTimes(list []gpubackend.EventTime) gpubackend.Result {
	for _, t := range list {
		c := x.contexts.Of(t.Context)
		if c == nil {
			return gpubackend.InvalidContext
		}
		p := x.past[c]
		if p == nil {
			p = &past{ago: map[gpubackend.Event]int64{}}
			r := x.contexts.In(c, func() (r gpubackend.Result) {
				p.now, r = x.recordedNow()
				return r
			})
			if r != gpubackend.Success {
				return r
			}
			if x.past == nil {
				x.past = map[*contexts.Context]*past{}
			}
			x.past[c] = p
		}
		p.ago[t.Event] = t.Ago
	}
	return gpubackend.Success
}

// EventElapsed is the time from one event to another in nanoseconds.
func (x *Streams) EventElapsed(from, to gpubackend.Event) (uint64, gpubackend.Result) {
	ns, r := x.calls.EventElapsed(from, to)
	if r != gpubackend.InvalidHandle {
		return ns, r
	}
	for _, p := range x.past {
		begin, is := x.after(p, from)
		if is != gpubackend.Success {
			continue
		}
		end, is := x.after(p, to)
		if is != gpubackend.InvalidHandle {
			return uint64(end - begin), is
		}
	}
	return 0, r
}

// after is how long after p.now an event was complete, whichever process recorded it.
func (x *Streams) after(p *past, e gpubackend.Event) (int64, gpubackend.Result) {
	ns, r := x.calls.EventElapsed(p.now, e)
	if ago, ok := p.ago[e]; ok && r == gpubackend.InvalidHandle {
		return -ago, gpubackend.Success
	}
	return int64(ns), r
}

// EventDestroy forgets the event's time.
func (x *Streams) EventDestroy(e gpubackend.Event) gpubackend.Result {
	r := x.calls.EventDestroy(e)
	if r == gpubackend.Success {
		for _, p := range x.past {
			delete(p.ago, e)
		}
	}
	return r
}
