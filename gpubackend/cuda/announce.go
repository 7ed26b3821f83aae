// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// Announce implements gpubackend.Driver by a memory operation at the end of the stream. Its order includes the memory
// that earlier work wrote (cuStreamWriteValue32, without CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER).
//
// A stream without work that is known of is not worth the operation: asking whether it is idle is cheaper.
func (d *Device) Announce(s gpubackend.Stream, all bool, addr uint64, value uint32) gpubackend.Result {
	if d.state == nil || d.state.home().dead != gpubackend.Success || d.prints.working || len(d.capturing) > 0 || d.function[symAnnounce] == nil {
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
	r := d.failed(d.callAt(d.function[symAnnounce], uint64(s), addr, uint64(value), 0))
	if r == gpubackend.Success {
		work.announced, work.mark = s, work.touches
	}
	return r
}

// Announced implements gpubackend.Driver.
func (d *Device) Announced() (settled bool) {
	if d.state == nil {
		return false
	}
	work := &d.state.work
	if work.mark != work.touches {
		return false
	}
	work.done(work.announced)
	if !work.busy() {
		d.settled()
	}
	return !work.busy()
}
