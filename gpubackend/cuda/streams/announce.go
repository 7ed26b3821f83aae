// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
)

// Announce implements gpubackend.Driver by a memory operation at the end of the stream. Its order
// includes the memory that earlier work wrote (cuStreamWriteValue32, without
// CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER).
//
// If a stream isn't known to have work, asking it is cheaper than the operation.
func (x *Streams) Announce(
	s gpubackend.Stream, all bool, addr uint64, value uint32,
) gpubackend.Result {
	c := x.contexts.Current()
	if c == nil || c.Dead() != gpubackend.Success || x.prints.Working() || x.Capturing() ||
		!x.calls.CanAnnounce() {
		return gpubackend.NotSupported
	}
	if all {
		only, ok := c.Work.Only()
		if !ok || x.greenBusy() {
			return gpubackend.NotSupported
		}
		s = only
	} else if !c.Work.Has(s) {
		return gpubackend.NotSupported
	}
	r := x.contexts.Failed(x.calls.StreamWriteValue32(s, addr, value))
	if r == gpubackend.Success {
		c.Work.Announce(activity.Announcement{Stream: s, Addr: addr, Value: value})
	}
	return r
}

// Announced implements gpubackend.Driver.
func (x *Streams) Announced(addr uint64, value uint32) (settled bool) {
	c := x.contexts.Current()
	if c == nil || !c.Work.Arrive(addr, value) {
		return false
	}
	if !c.Work.Busy() {
		x.settled()
	}
	return !c.Work.Busy()
}
