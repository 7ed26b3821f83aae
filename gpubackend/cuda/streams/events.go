// SPDX-License-Identifier: Apache-2.0

package streams

import "github.com/paracuda/paracuda/gpubackend"

// EventQuery makes the driver write output when the event is complete, as cuEventSynchronize does.
func (x *Streams) EventQuery(e gpubackend.Event) gpubackend.Result {
	r := x.calls.EventQuery(e)
	if r != gpubackend.Success {
		return x.contexts.Failed(r)
	}
	if c := x.contexts.Current(); c != nil && x.prints.Working() && c.Work.Busy() {
		x.calls.EventSynchronize(e)
	}
	return r
}
