// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// activity is which streams of a context may have work in flight. The driver's own question for a whole context
// (cuCtxSynchronize) waits, and asking the default stream says nothing about the others, so each stream that was given
// work since it was last seen idle is asked.
type activity struct {
	streams []gpubackend.Stream // with work; few at a time
	events  []gpubackend.Event  // after the last work of streams that were destroyed with work in flight
	last    gpubackend.Stream   // last one touched, which is in streams if recent is set
	recent  bool

	announced []announcement // on their way: one for each thread that waits
	quiet     [4]quiet       // the latest that arrived
	quieted   int
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

// touch notes that a stream was given work.
func (a *activity) touch(s gpubackend.Stream) {
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

// streamArgument is the position, from 1, of the stream in the generated calls that give it work.
var streamArgument = [symbols]uint8{
	symMemcpyDtoDAsync:      4,
	symMemsetD8Async:        4,
	symMemsetD16Async:       4,
	symMemsetD32Async:       4,
	symMemsetD2D8Async:      6,
	symMemsetD2D16Async:     6,
	symMemsetD2D32Async:     6,
	symStreamWaitEvent:      1,
	symEventRecordWithFlags: 2,
	symMemcpyAsync:          4,
	symMemcpyHtoDAsync:      4,
	symMemcpy2DAsync:        2,
	symMemcpy3DAsync:        2,
	symMemcpyBatchAsync:     8,
	symLaunchHostFunc:       1,
	symGraphLaunch:          2,
	symGraphUpload:          2,
	symMemFreeAsync:         2,
	symStreamBatchMemOp:     1,
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
		if d.prints.working {
			d.call(symCtxSynchronize)
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
		if d.isCapturing(s) {
			return gpubackend.NotReady // asking would end the capture
		}
		if r := d.calls.StreamQuery(s); r != gpubackend.Success {
			return d.failed(r)
		}
		work.done(s)
	}
	for len(work.events) > 0 {
		e := work.events[len(work.events)-1]
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
		d.call(symStreamSynchronize, uint64(s))
	}
	return r
}

// StreamDestroy returns at once, also when work is in flight: an event stands for that work from then on.
func (d *Device) StreamDestroy(s gpubackend.Stream) gpubackend.Result {
	if s == gpubackend.DefaultStream || s == gpubackend.LegacyStream {
		return gpubackend.InvalidHandle
	}
	d.adoptWork(s)
	if d.state != nil && slices.Contains(d.state.work.streams, s) && !d.isCapturing(s) {
		d.watchLast(s)
	}
	delete(d.capturing, s)
	return d.calls.StreamDestroy(s)
}

func (d *Device) watchLast(s gpubackend.Stream) {
	work := &d.state.work
	if d.calls.StreamQuery(s) == gpubackend.NotReady {
		if e, r := d.EventCreate(eventDisableTiming); r == gpubackend.Success {
			d.calls.EventRecordWithFlags(e, s, 0)
			work.events = append(work.events, e)
		}
	}
	work.done(s)
}
