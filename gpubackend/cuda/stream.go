// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// activity is which streams of a context may have work in flight. The driver's own question for a whole context
// (cuCtxSynchronize) waits, and asking the default stream says nothing about the others, so each stream that was given
// work since it was last seen idle is asked.
type activity struct {
	streams []gpubackend.Stream // with work; few at a time
	events  []mark              // after the last work of streams that can't be asked any more
	last    gpubackend.Stream   // last one touched, which is in streams if recent is set
	recent  bool

	announced []announcement // on their way: one for each thread that waits
	quiet     [4]quiet       // the latest that arrived
	quieted   int
}

// mark is an event behind what a stream was given before it was destroyed, or began to capture.
type mark struct {
	event  gpubackend.Event
	stream gpubackend.Stream // 0 when it is gone
}

// unified is s, with the two names of the legacy stream made one.
func unified(s gpubackend.Stream) gpubackend.Stream {
	if s == gpubackend.LegacyStream {
		return gpubackend.DefaultStream
	}
	return s
}

// has says whether a stream may have work in flight.
func (a *activity) has(s gpubackend.Stream) bool { return slices.Contains(a.streams, unified(s)) }

// Touch notes that a stream was given work.
func (a *activity) Touch(s gpubackend.Stream) {
	s = unified(s)
	if a.recent && a.last == s {
		return
	}
	if !slices.Contains(a.streams, s) {
		a.streams = append(a.streams, s)
	}
	a.disturb(s)
	a.last, a.recent = s, true
}

func (a *activity) busy() bool { return len(a.streams)+len(a.events) > 0 }

// done notes that a stream is idle. It says whether it wasn't known to be.
func (a *activity) done(s gpubackend.Stream) bool {
	i := slices.Index(a.streams, unified(s))
	if i < 0 {
		return false
	}
	a.streams[i] = a.streams[len(a.streams)-1]
	a.streams = a.streams[:len(a.streams)-1]
	a.recent = false
	return true
}

// ContextQuery asks every stream that was given work.
func (d *Device) ContextQuery() gpubackend.Result {
	if !d.usable() {
		return gpubackend.InvalidContext
	}
	if dead := d.state.home().dead; dead != gpubackend.Success {
		return dead
	}
	r := d.query()
	if r == gpubackend.Success {
		d.settled()
		if d.prints.working && len(d.capturing) == 0 {
			d.CtxSynchronize()
		}
	}
	return r
}

// settled takes back what was freed while the current context was busy, now that it is idle.
func (d *Device) settled() {
	if len(d.contexts) == 1 || d.idle() {
		d.takeBack(d.state)
	}
}

// query asks the current context's busy streams, and those of the green contexts that are part of it.
func (d *Device) query() gpubackend.Result {
	if r := d.queryOwn(); r != gpubackend.Success || !d.greenBusy() {
		return r
	}
	return d.queryGreen()
}

// queryOwn asks the current context's busy streams, starting with the latest, until one is not ready.
func (d *Device) queryOwn() gpubackend.Result {
	work := &d.state.work
	for len(work.streams) > 0 {
		s := work.streams[len(work.streams)-1]
		if d.isCapturing(s) { // it runs nothing, and asking would end the capture
			work.done(s)
			continue
		}
		if r := d.calls.StreamQuery(s); r != gpubackend.Success {
			return d.failed(r)
		}
		work.done(s)
	}
	for len(work.events) > 0 {
		e := work.events[len(work.events)-1].event
		if r := d.calls.EventQuery(e); r != gpubackend.Success {
			return d.failed(r)
		}
		d.calls.EventDestroy(e)
		work.events = work.events[:len(work.events)-1]
	}
	return gpubackend.Success
}

// failed remembers an error that ends the current context, and returns it.
func (d *Device) failed(r gpubackend.Result) gpubackend.Result {
	if r.Sticky() && d.state != nil {
		d.state.home().dead = r
	}
	return r
}

// StreamQuery has what the stream's kernels printed written out when it is idle, as cuStreamSynchronize does.
func (d *Device) StreamQuery(s gpubackend.Stream) gpubackend.Result {
	r := d.calls.StreamQuery(s)
	if r == gpubackend.NotReady && d.state != nil && d.state.work.isQuiet(s) {
		return gpubackend.Success
	}
	if r != gpubackend.Success {
		return d.failed(r)
	}
	if d.state == nil || !d.state.work.done(s) || !d.prints.working {
		return r
	}
	// Synchronizing the default stream could wait for others: what it printed comes when they are idle too.
	if s > gpubackend.LegacyStream || !d.state.work.busy() {
		d.StreamSynchronize(s)
	}
	return r
}

// StreamCreateWithPriority makes a stream of the current context.
func (d *Device) StreamCreateWithPriority(flags, priority uint64) (gpubackend.Stream, gpubackend.Result) {
	s, r := d.calls.StreamCreateWithPriority(flags, priority)
	if r == gpubackend.Success {
		d.streams[s] = d.state
	}
	return s, r
}

// forgetStreams forgets the streams of a context that has ended, and with it their work. Other contexts may have been
// current when they were given it.
func (d *Device) forgetStreams(of *context) {
	for s, c := range d.streams {
		if c == of {
			d.forgetStream(s)
		}
	}
}

func (d *Device) forgetStream(s gpubackend.Stream) {
	for _, c := range d.contexts {
		c.work.done(s)
		c.work.orphan(s)
	}
	delete(d.capturing, s)
	delete(d.streams, s)
}

// StreamDestroy returns at once, also when work is in flight: an event stands for that work from then on. The stream may
// be of another context than the current one, and may have joined a capture.
func (d *Device) StreamDestroy(s gpubackend.Stream) gpubackend.Result {
	if unified(s) == gpubackend.DefaultStream {
		return gpubackend.InvalidHandle
	}
	for _, c := range d.contexts {
		d.watchLast(c, s)
	}
	d.forgetStream(s)
	return d.calls.StreamDestroy(s)
}

// StreamWaitEvent may have the stream join a capture.
func (d *Device) StreamWaitEvent(s gpubackend.Stream, e gpubackend.Event, flags uint64) gpubackend.Result {
	if len(d.capturing) > 0 {
		d.beforeCapture(s)
	}
	return d.calls.StreamWaitEvent(s, e, flags)
}

// beforeCapture marks what a stream was given so far: while it captures it can't be asked.
func (d *Device) beforeCapture(s gpubackend.Stream) {
	if d.state != nil && unified(s) != gpubackend.DefaultStream {
		d.watchLast(d.state, s)
	}
}

// watchLast has an event stand for the work that a stream was given in a context.
func (d *Device) watchLast(c *context, s gpubackend.Stream) {
	if !c.work.has(s) {
		return
	}
	before := d.current
	if d.SetCurrent(c.handle) == gpubackend.Success && !d.isCapturing(s) && d.calls.StreamQuery(s) == gpubackend.NotReady {
		d.mark(&c.work, s)
	}
	d.SetCurrent(before)
	c.work.done(s)
}

// mark records an event in a stream, the same one each time.
func (d *Device) mark(work *activity, s gpubackend.Stream) {
	i := slices.IndexFunc(work.events, func(m mark) bool { return m.stream == s })
	if i < 0 {
		e, r := d.EventCreate(driver.EventDisableTiming)
		if r != gpubackend.Success {
			return
		}
		i = len(work.events)
		work.events = append(work.events, mark{e, s})
	}
	d.calls.EventRecordWithFlags(work.events[i].event, s, 0)
}

// orphan notes that a stream is gone: another may get its handle.
func (a *activity) orphan(s gpubackend.Stream) {
	a.announced = slices.DeleteFunc(a.announced, func(n announcement) bool { return n.stream == s })
	a.disturb(s)
	for i := range a.events {
		if a.events[i].stream == s {
			a.events[i].stream = 0
		}
	}
}
