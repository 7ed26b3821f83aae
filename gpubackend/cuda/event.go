// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// EventQuery has output written out when the event is complete, as cuEventSynchronize does.
func (d *Device) EventQuery(e gpubackend.Event) gpubackend.Result {
	r := d.calls.EventQuery(e)
	if r != gpubackend.Success {
		return d.failed(r)
	}
	if d.prints.working && d.state != nil && d.state.work.busy() {
		d.EventSynchronize(e)
	}
	return r
}
