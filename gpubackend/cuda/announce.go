// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// Announce implements gpubackend.Driver by a memory operation at the end of the stream. Its order includes the memory
// that earlier work wrote (cuStreamWriteValue32, without CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER).
//
// A stream without work that is known of is not worth the operation: asking whether it is idle is cheaper.
func (d *Device) Announce(s gpubackend.Stream, all bool, addr uint64, value uint32) gpubackend.Result {
	if d.state == nil || d.state.home().dead != gpubackend.Success || d.prints.working || len(d.capturing) > 0 || !d.CanAnnounce() {
		return gpubackend.NotSupported
	}
	work := &d.state.work
	if all {
		if len(work.streams) != 1 || len(work.events) > 0 || d.greenBusy() {
			return gpubackend.NotSupported
		}
		s = work.streams[0]
	} else if !work.has(s) {
		return gpubackend.NotSupported
	}
	r := d.failed(d.StreamWriteValue32(s, addr, value))
	if r == gpubackend.Success {
		work.announce(announcement{stream: unified(s), addr: addr, value: value})
	}
	return r
}

// Announced implements gpubackend.Driver.
func (d *Device) Announced(addr uint64, value uint32) (settled bool) {
	if d.state == nil {
		return false
	}
	work := &d.state.work
	if !work.arrive(addr, value) {
		return false
	}
	if !work.busy() {
		d.settled()
	}
	return !work.busy()
}

// announcement is a write that a stream was given behind its work.
type announcement struct {
	stream gpubackend.Stream
	addr   uint64 // where to; one address has one announcement at a time
	value  uint32
	behind bool // the stream was given more work since
}

// announce notes an announcement, in place of an earlier one at the same address that nobody told of yet.
func (a *activity) announce(n announcement) {
	a.announced = slices.DeleteFunc(a.announced, func(o announcement) bool { return o.addr == n.addr })
	a.announced = append(a.announced, n)
	a.recent = false // the next touch looks at it
}

// arrive takes the announcement of value at addr. It says whether its stream had no more work and is idle now. A thread may
// have been answered, and have asked for the next announcement, before this one is told of.
func (a *activity) arrive(addr uint64, value uint32) bool {
	i := slices.IndexFunc(a.announced, func(n announcement) bool { return n.addr == addr && n.value == value })
	if i < 0 {
		return false
	}
	n := a.announced[i]
	a.announced = slices.Delete(a.announced, i, i+1)
	a.recent = false
	if n.behind {
		return false
	}
	a.done(n.stream)
	a.quiet[a.quieted%len(a.quiet)] = quiet{n.stream, true}
	a.quieted++
	return true
}

// quiet is a stream whose end was announced. The driver may say for a moment that it is not ready: the announcement is
// followed by the driver's own mark.
type quiet struct {
	stream gpubackend.Stream
	valid  bool
}

// isQuiet says whether s had no work since its end was announced.
func (a *activity) isQuiet(s gpubackend.Stream) bool {
	return slices.Contains(a.quiet[:], quiet{unified(s), true})
}

// disturb notes work behind announcements. The legacy stream waits for others' work, too.
func (a *activity) disturb(s gpubackend.Stream) {
	for i := range a.announced {
		if a.announced[i].stream == s {
			a.announced[i].behind = true
		}
	}
	for i := range a.quiet {
		if q := a.quiet[i].stream; q == s || q == gpubackend.DefaultStream {
			a.quiet[i].valid = false
		}
	}
}
