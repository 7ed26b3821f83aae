// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// StreamSynchronize waits for the work of a stream.
func (d Streams) StreamSynchronize(s gpubackend.Stream) gpubackend.Result {
	return d.call(symStreamSynchronize, uint64(s))
}

// StreamWriteValue32 makes a stream write a number after its work, and after what that work wrote.
// It doesn't count as work of the stream.
func (d Streams) StreamWriteValue32(
	s gpubackend.Stream, addr uint64, value uint32,
) gpubackend.Result {
	return d.call(symAnnounce, uint64(s), addr, uint64(value), 0)
}

// CanAnnounce says whether the driver has StreamWriteValue32.
func (d Streams) CanAnnounce() bool { return d.function[symAnnounce] != nil }

// StreamBatchMemOp queues operations on memory, in order.
func (d Streams) StreamBatchMemOp(s gpubackend.Stream, ops []byte, flags uint64) gpubackend.Result {
	b := cmem.Optional(ops)
	defer b.Free()
	return d.call(symStreamBatchMemOp, uint64(s),
		uint64(len(ops)/cudaabi.StreamBatchMemOpParamsSize), b.Address(), flags)
}

// EventCreate makes an event of the current context.
func (d Streams) EventCreate(flags uint64) (gpubackend.Event, gpubackend.Result) {
	r := d.call(symEventCreate, d.out(0), flags)
	return gpubackend.Event(d.value(0)), r
}

// EventSynchronize waits for an event.
func (d Streams) EventSynchronize(e gpubackend.Event) gpubackend.Result {
	return d.call(symEventSynchronize, uint64(e))
}

// EventElapsed gives the driver's milliseconds, a float of about half a microsecond's resolution,
// as nanoseconds.
func (d Streams) EventElapsed(start, end gpubackend.Event) (uint64, gpubackend.Result) {
	r := d.call(symEventElapsedTime, d.out(0), uint64(start), uint64(end))
	ms := math.Float32frombits(uint32(d.value(0)))
	return uint64(int64(math.Round(float64(ms) * 1e6))), r
}

// ShareEvent gives the driver's own handle.
func (d Streams) ShareEvent(
	e gpubackend.Event,
) (s gpubackend.SharedEvent, fd int, r gpubackend.Result) {
	b := cmem.Allocate(len(s))
	defer b.Free()
	r = d.call(symIpcGetEventHandle, b.Address(), uint64(e))
	copy(s[:], b.Bytes())
	return s, -1, r
}

// IpcOpenEventHandle opens an event of another process by such a handle.
func (d Streams) IpcOpenEventHandle(
	s gpubackend.SharedEvent,
) (gpubackend.Event, gpubackend.Result) {
	b := cmem.Copied(s[:], 0)
	defer b.Free()
	r := d.openEvent(b)
	return gpubackend.Event(d.value(0)), r
}
