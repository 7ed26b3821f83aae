// SPDX-License-Identifier: Apache-2.0

// Package sums makes the GPU compute the checksums of sectors of its memory, by a kernel of package
// sectorsum.
//
// # Who owns what
//
// A Summer owns a module, a stream and pinned memory of one context, which must be current when it
// is called. The guest's program knows none of them, and has no work in flight.
//
// # Who may lie
//
// Nobody: addresses are those of the process's own pieces. Contents may be anything.
package sums

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	ModuleLoad(image cmem.Memory, o *driver.Options) (gpubackend.Module, gpubackend.Result)
	ModuleUnload(gpubackend.Module) gpubackend.Result
	ModuleGetFunction(gpubackend.Module, string) (gpubackend.Function, gpubackend.Result)
	LaunchKernel(l *gpubackend.Launch, attributes []byte, offsets []uint32) gpubackend.Result
	MemHostAlloc(bytes uint64) (addr uint64, r gpubackend.Result)
	MemFreeHost(addr uint64) gpubackend.Result
	StreamCreateWithPriority(flags, priority uint64) (gpubackend.Stream, gpubackend.Result)
	StreamDestroy(s gpubackend.Stream) gpubackend.Result
	StreamSynchronize(s gpubackend.Stream) gpubackend.Result
}

// most is how many sectors' sums are computed before anybody waits: 16 GiB. Their sums take 512 KiB
// of pinned memory, which is allocated in a quarter of a millisecond.
const most = 64 << 10

// Summer computes checksums of memory of one context's GPU.
type Summer struct {
	calls    Calls
	work     *activity.Activity // of the context
	module   gpubackend.Module
	function gpubackend.Function
	stream   gpubackend.Stream
	address  uint64 // of the sums that the GPU writes
	used     int    // of most, by kernels that may not have ended
}

// New makes a Summer for the current context, whose work is given. After an error it is to be
// closed, too.
func New(calls Calls, work *activity.Activity) (*Summer, gpubackend.Result) {
	s := &Summer{calls: calls, work: work}
	image := cmem.Copied([]byte(sectorsum.Kernel), 1)
	defer image.Free()
	var r gpubackend.Result
	if s.module, r = calls.ModuleLoad(image, &driver.Options{}); r != gpubackend.Success {
		return s, r
	}
	s.function, r = calls.ModuleGetFunction(s.module, sectorsum.KernelName)
	if r != gpubackend.Success {
		return s, r
	}
	// It and the guest's streams don't wait for each other.
	s.stream, r = calls.StreamCreateWithPriority(cudaabi.StreamNonBlocking, 0)
	if r != gpubackend.Success {
		return s, r
	}
	s.address, r = calls.MemHostAlloc(most * 8)
	return s, r
}

// Sum puts the sums of all sectors of pieces, with a key. The pieces have whole sectors.
func (s *Summer) Sum(
	key uint64, pieces []gpubackend.Piece, sums []uint64,
) gpubackend.Result {
	for _, p := range pieces {
		for at, left := p.Address, p.Bytes/sectorsum.Bytes; left > 0; {
			n := min(left, most-uint64(s.used))
			if r := s.launch(key, at, n); r != gpubackend.Success {
				return r
			}
			at, left = at+n*sectorsum.Bytes, left-n
			if s.used < most {
				continue
			}
			var r gpubackend.Result
			if sums, r = s.take(sums); r != gpubackend.Success {
				return r
			}
		}
	}
	_, r := s.take(sums)
	return r
}

// launch makes a kernel compute the sums of n sectors. They follow the sums that there are.
func (s *Summer) launch(key, sectors, n uint64) gpubackend.Result {
	parameters := binary.LittleEndian.AppendUint64(nil, sectors)
	parameters = binary.LittleEndian.AppendUint64(parameters, key)
	parameters = binary.LittleEndian.AppendUint64(parameters, s.address+uint64(s.used)*8)
	s.used += int(n)
	return s.calls.LaunchKernel(&gpubackend.Launch{
		Function: s.function, Stream: s.stream, Parameters: parameters,
		Grid: [3]uint32{uint32(n), 1, 1}, Block: [3]uint32{sectorsum.Lanes, 1, 1},
	}, nil, nil)
}

// take waits for the kernels, and takes their sums. It returns those that are still to be put.
func (s *Summer) take(sums []uint64) ([]uint64, gpubackend.Result) {
	r := s.calls.StreamSynchronize(s.stream)
	if r == gpubackend.Success {
		sums = sums[copy(sums, cmem.WordsAt(s.address, uint64(s.used))):]
	}
	s.used = 0
	return sums, r
}

// Close waits for kernels that may be under way, and gives all back. The driver's calls have
// entered the stream as busy: nobody may ask it once it is gone.
func (s *Summer) Close() {
	if s.stream != 0 {
		s.calls.StreamSynchronize(s.stream)
		s.calls.StreamDestroy(s.stream)
		s.work.Gone(s.stream)
	}
	if s.address != 0 {
		s.calls.MemFreeHost(s.address)
	}
	if s.module != 0 {
		s.calls.ModuleUnload(s.module)
	}
}
