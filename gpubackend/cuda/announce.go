// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// Announce implements gpubackend.Driver by a memory operation at the end of the stream. Its order includes the memory
// that earlier work wrote (cuStreamWriteValue32, without CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER).
func (d *Device) Announce(s gpubackend.Stream, all bool, addr uint64, value uint32) gpubackend.Result {
	if d.state == nil || d.state.dead != gpubackend.Success || d.prints || len(d.capturing) > 0 || d.function[symAnnounce] == nil {
		return gpubackend.NotSupported
	}
	if all {
		work := &d.state.work
		if len(work.streams) != 1 || len(work.events) > 0 {
			return gpubackend.NotSupported
		}
		s = work.streams[0]
	}
	return d.failed(d.callAt(d.function[symAnnounce], uint64(s), addr, uint64(value), 0))
}
