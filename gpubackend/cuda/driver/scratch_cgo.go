// SPDX-License-Identifier: Apache-2.0

package driver

// #include "call.h"
// #cgo noescape pc_launches
// #cgo nocallback pc_launches
import "C"

import (
	"encoding/binary"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/launches"
)

// Sizes of launches.
const (
	MaxLaunchAttributes = cudaabi.MaxLaunchAttributes
	MaxLaunches         = launches.MaxBatch // in one call of C
	parameterSpace      = 256 << 10         // for the parameters of all of them
)

// scratch is the C memory in which launches are put together: the structures, their parameters and
// attributes. When a call returns, the driver has copied all of it.
type scratch struct {
	launch     []C.struct_pc_launch
	done       *C.int32_t
	memory     cmem.Memory
	parameters []byte
	used       int // of parameters
	attributes []byte
}

func (s *scratch) init() {
	const (
		structures = MaxLaunches * int(C.sizeof_struct_pc_launch)
		attributes = structures + 16 + parameterSpace
	)
	s.memory = cmem.Allocate(attributes + MaxLaunchAttributes*cudaabi.LaunchAttributeSize)
	b := s.memory.Bytes()
	// SAFETY: the memory begins with room for MaxLaunches structures and is aligned for them.
	s.launch = unsafe.Slice((*C.struct_pc_launch)(s.memory.Pointer()), MaxLaunches)
	// SAFETY: a multiple of 8 after the beginning, with 16 bytes of its own.
	s.done = (*C.int32_t)(unsafe.Pointer(&b[structures]))
	s.parameters = b[structures+16 : attributes : attributes]
	s.attributes = b[attributes:]
}

func (s *scratch) free() {
	s.memory.Free()
	*s = scratch{}
}

// put puts launch l in place i. It returns false if there is no room for its parameters.
func (s *scratch) put(i int, l *gpubackend.Launch) bool {
	if len(l.Parameters) > len(s.parameters)-s.used {
		return false
	}
	c := &s.launch[i]
	c.function = C.uint64_t(l.Function)
	c.stream = C.uint64_t(l.Stream)
	for k := range 3 {
		c.grid[k] = C.uint32_t(l.Grid[k])
		c.block[k] = C.uint32_t(l.Block[k])
	}
	c.shared = C.uint32_t(l.Shared)
	c.attribute_count, c.pointers = 0, 0
	parameters := s.parameters[s.used:]
	c.parameters = C.uint64_t(cmem.AddressOf(parameters))
	c.parameter_bytes = C.uint64_t(copy(parameters, l.Parameters))
	s.used += Padded(len(l.Parameters))
	return true
}

// Padded is what parameters of n bytes take among those of other launches.
func Padded(n int) int { return (n + 15) &^ 15 }

// point writes pointers to the parameters of the first launch behind them, and returns their
// address; 0 for none.
func (s *scratch) point(offsets []uint32) uint64 {
	to := s.parameters[s.used:]
	if 8*len(offsets) > len(to) {
		return 0
	}
	PutPointers(to, cmem.AddressOf(s.parameters), offsets)
	return cmem.AddressOf(to)
}

// PutPointers writes where each parameter is, given where the packed ones are.
func PutPointers(to []byte, packed uint64, offsets []uint32) {
	for i, o := range offsets {
		binary.NativeEndian.PutUint64(to[8*i:], packed+uint64(o))
	}
}

// Attributes copies launch attributes to where LaunchKernel has them, for the caller to check
// there. There are at most MaxLaunchAttributes, of cudaabi.LaunchAttributeSize each.
func (d Launches) Attributes(from []byte) []byte {
	return d.scratch.attributes[:copy(d.scratch.attributes, from)]
}

// LaunchKernel queues a kernel in one call of C, without allocating. Its attributes are those that
// Attributes returned last. The parameters are at most cudaabi.MaxParameterBytes; with offsets the
// driver is given a pointer to each.
func (d Launches) LaunchKernel(
	l *gpubackend.Launch, attributes []byte, offsets []uint32,
) gpubackend.Result {
	s := &d.scratch
	s.used = 0
	s.put(0, l)
	s.launch[0].attributes = C.uint64_t(cmem.AddressOf(s.attributes))
	s.launch[0].attribute_count = C.uint32_t(len(attributes) / cudaabi.LaunchAttributeSize)
	if len(offsets) > 0 {
		s.launch[0].pointers = C.uint64_t(s.point(offsets))
	}
	d.Touch(l.Stream)
	_, r := d.Submit(1)
	return r
}

// Pack puts launches without attributes into the scratch memory, in place of what was there: as
// many as there is room for, at least one. It returns how many.
func (d Launches) Pack(ls []gpubackend.Launch) (n int) {
	s := &d.scratch
	s.used = 0
	for n < MaxLaunches && n < len(ls) {
		l := &ls[n]
		if len(l.Parameters) > cudaabi.MaxParameterBytes || !s.put(n, l) {
			break
		}
		n++
	}
	return n
}

// Packed is the parameters of the launches that Pack has put there, each Padded.
func (d Launches) Packed() []byte { return d.scratch.parameters[:d.scratch.used] }

// Submit queues the first n launches that were packed, in order, up to the first that fails. It
// returns how many were queued.
func (d Launches) Submit(n int) (done int, r gpubackend.Result) {
	s := &d.scratch
	r = gpubackend.Result(C.pc_launches(d.function[symLaunchKernel], d.function[symLaunchKernelEx],
		&s.launch[0], C.int32_t(n), s.done))
	return int(*s.done), r
}
