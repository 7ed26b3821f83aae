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
	maxLaunchAttributes = 16
)

// launchScratch is the C memory in which launches are put together: the structure, its parameters and
// attributes. The driver has taken all of it when the call returns.
type launchScratch struct {
	launch     *C.struct_pc_launch
	done       *C.int32_t
	memory     block
	parameters []byte
	attributes []byte
}

func (l *launchScratch) init() {
	const head = int(C.sizeof_struct_pc_launch)
	l.memory = allocate(head + 16 + maxParameterBytes + 4 + maxLaunchAttributes*launchAttributeSize)
	b := l.memory.bytes()
	l.launch = (*C.struct_pc_launch)(l.memory.p)
	l.done = (*C.int32_t)(unsafe.Pointer(&b[head]))
	l.parameters = b[head+16 : head+16+maxParameterBytes]
	l.attributes = b[head+16+maxParameterBytes+4:]
}

func (l *launchScratch) free() {
	l.memory.free()
	*l = launchScratch{}
}

// passedAttributes are the launch attributes (CUlaunchAttributeID) without a handle or pointer to the host in them:
// 7 and 12 hold an event, 13 answers with a graph node.
const passedAttributes = 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<14

// Launch queues a kernel in one call of C, without allocating.
func (d *Device) Launch(l *gpubackend.Launch) gpubackend.Result {
	s := &d.launches
	if len(l.Parameters) > len(s.parameters) || len(l.Attributes) > len(s.attributes) {
		return gpubackend.InvalidValue
	}
	n := copy(s.attributes, l.Attributes)
	if r := checkAttributes(s.attributes[:n]); r != gpubackend.Success {
		return r
	}
	c := s.launch
	c.function = C.uint64_t(l.Function)
	c.stream = C.uint64_t(l.Stream)
	for i := range 3 {
		c.grid[i] = C.uint32_t(l.Grid[i])
		c.block[i] = C.uint32_t(l.Block[i])
	}
	c.shared = C.uint32_t(l.Shared)
	c.parameters = C.uint64_t(addressOf(s.parameters))
	c.parameter_bytes = C.uint64_t(copy(s.parameters, l.Parameters))
	c.attributes = C.uint64_t(addressOf(s.attributes))
	c.attribute_count = C.uint32_t(n / launchAttributeSize)
	if d.active != nil {
		d.active.touch(l.Stream)
	}
	return gpubackend.Result(C.pc_launches(d.function[symLaunchKernel], d.function[symLaunchKernelEx], c, 1, s.done))
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
