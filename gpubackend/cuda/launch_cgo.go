// SPDX-License-Identifier: Apache-2.0

package cuda

// #include "driver.h"
import "C"

import (
	"encoding/binary"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
)

// Sizes of launches.
const (
	maxParameterBytes   = 32764
	launchAttributeSize = 72
	maxLaunchAttributes = 32
	maxLaunches         = 128       // in one call of C
	parameterSpace      = 256 << 10 // for the parameters of all of them
)

// launchScratch is the C memory in which launches are put together: the structures, their parameters and
// attributes. The driver has taken all of it when the call returns.
type launchScratch struct {
	launch     []C.struct_pc_launch
	done       *C.int32_t
	memory     block
	parameters []byte
	used       int // of parameters
	attributes []byte
}

func (l *launchScratch) init() {
	const (
		structures = maxLaunches * int(C.sizeof_struct_pc_launch)
		attributes = structures + 16 + parameterSpace
	)
	l.memory = allocate(attributes + maxLaunchAttributes*launchAttributeSize)
	b := l.memory.bytes()
	// SAFETY: the memory begins with room for maxLaunches structures and is aligned for them.
	l.launch = unsafe.Slice((*C.struct_pc_launch)(l.memory.p), maxLaunches)
	// SAFETY: a multiple of 8 after the beginning, with 16 bytes of its own.
	l.done = (*C.int32_t)(unsafe.Pointer(&b[structures]))
	l.parameters = b[structures+16 : attributes : attributes]
	l.attributes = b[attributes:]
}

func (l *launchScratch) free() {
	l.memory.free()
	*l = launchScratch{}
}

// fill puts launch l in place i. It says false when there is no room for its parameters.
func (s *launchScratch) fill(i int, l *gpubackend.Launch) bool {
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
	c.parameters = C.uint64_t(addressOf(parameters))
	c.parameter_bytes = C.uint64_t(copy(parameters, l.Parameters))
	s.used += (len(l.Parameters) + 15) &^ 15
	return true
}

// point puts pointers to the parameters of the first launch behind them, and returns where; 0 for none.
func (s *launchScratch) point(offsets []uint32) uint64 {
	to := s.parameters[s.used:]
	if len(offsets) == 0 || 8*len(offsets) > len(to) {
		return 0
	}
	putPointers(to, addressOf(s.parameters), offsets)
	return addressOf(to)
}

// passedAttributes are the launch attributes (CUlaunchAttributeID) that the driver gets. 7 and 12 hold an event, of
// the driver's already; 13, which answers with a graph node, is not among them.
const passedAttributes = 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<14

// Launch queues a kernel in one call of C, without allocating.
func (d *Device) Launch(l *gpubackend.Launch) gpubackend.Result {
	s := &d.launches
	if len(l.Parameters) > maxParameterBytes || len(l.Attributes) > len(s.attributes) {
		return gpubackend.InvalidValue
	}
	n := copy(s.attributes, l.Attributes)
	if r := checkAttributes(s.attributes[:n]); r != gpubackend.Success {
		return r
	}
	s.used = 0
	s.fill(0, l)
	s.launch[0].attributes = C.uint64_t(addressOf(s.attributes))
	s.launch[0].attribute_count = C.uint32_t(n / launchAttributeSize)
	if len(d.capturing) > 0 && wantsPointers(s.attributes[:n]) {
		s.launch[0].pointers = C.uint64_t(s.point(d.offsets(l.Function, l.Parameters)))
	}
	if d.active != nil {
		d.active.touch(l.Stream)
	}
	_, r := d.submit(1)
	return r
}

// launchPlain queues kernels without attributes, one by one, up to maxLaunches of them in one call of C, without allocating.
func (d *Device) launchPlain(ls []gpubackend.Launch) (queued int, r gpubackend.Result) {
	s := &d.launches
	for queued < len(ls) {
		s.used = 0
		n := 0
		for n < maxLaunches && queued+n < len(ls) {
			l := &ls[queued+n]
			if len(l.Parameters) > maxParameterBytes || !s.fill(n, l) {
				break
			}
			if d.active != nil {
				d.active.touch(l.Stream)
			}
			n++
		}
		if n == 0 {
			return queued, gpubackend.InvalidValue // there is room for one of any permitted size
		}
		done, r := d.submit(n)
		queued += done
		if r != gpubackend.Success {
			return queued, r
		}
	}
	return queued, gpubackend.Success
}

// submit queues the first n launches that were put together.
func (d *Device) submit(n int) (done int, r gpubackend.Result) {
	s := &d.launches
	r = gpubackend.Result(C.pc_launches(d.function[symLaunchKernel], d.function[symLaunchKernelEx], &s.launch[0], C.int32_t(n), s.done))
	return int(*s.done), d.failed(r)
}

func checkAttributes(attributes []byte) gpubackend.Result {
	if len(attributes)%launchAttributeSize != 0 {
		return gpubackend.InvalidValue
	}
	for ; len(attributes) > 0; attributes = attributes[launchAttributeSize:] {
		id := binary.LittleEndian.Uint32(attributes)
		if id > 31 || passedAttributes>>id&1 == 0 {
			if id == 0 {
				continue // CU_LAUNCH_ATTRIBUTE_IGNORE
			}
			return gpubackend.NotSupported
		}
	}
	return gpubackend.Success
}
