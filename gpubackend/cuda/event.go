// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend"
)

// eventDisableTiming is a flag of cuEventCreate.
const eventDisableTiming = 2

// EventCreate makes an event of the current context.
func (d *Device) EventCreate(flags uint64) (gpubackend.Event, gpubackend.Result) {
	r := d.call(symEventCreate, d.out(0), flags)
	return gpubackend.Event(d.value(0)), r
}

// EventQuery has output written out when the event is complete, as cuEventSynchronize does.
func (d *Device) EventQuery(e gpubackend.Event) gpubackend.Result {
	r := d.calls.EventQuery(e)
	if r != gpubackend.Success {
		return d.failed(r)
	}
	if d.prints.working && d.state != nil && d.state.work.busy() {
		d.call(symEventSynchronize, uint64(e))
	}
	return r
}

// EventElapsed gives the driver's milliseconds, a float of about half a microsecond's resolution, as nanoseconds.
func (d *Device) EventElapsed(start, end gpubackend.Event) (uint64, gpubackend.Result) {
	r := d.call(symEventElapsedTime, d.out(0), uint64(start), uint64(end))
	ms := math.Float32frombits(uint32(d.value(0)))
	return uint64(int64(math.Round(float64(ms) * 1e6))), r
}
