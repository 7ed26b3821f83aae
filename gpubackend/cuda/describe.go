// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// maxParameters bounds the parameters of a kernel: 32,764 bytes of them, one byte each.
const maxParameters = 32764

// subject is a function or a kernel: how its parameters, attributes and name are asked for.
type subject struct {
	parameter func(i int) (offset, size uint32, r gpubackend.Result)
	attribute func(a int) (int32, gpubackend.Result)
	name      func() string
}

// FuncDescribe writes the function's record.
func (d *Device) FuncDescribe(f gpubackend.Function, record []byte) (uint64, gpubackend.Result) {
	return describeSubject(&subject{
		parameter: d.parameterOf(f),
		attribute: func(a int) (int32, gpubackend.Result) { return d.FuncAttribute(a, f) },
		name:      func() string { return d.FuncName(f) },
	}, record)
}

// KernelDescribe writes the kernel's record. Attributes are those on the current context's device, or the first.
func (d *Device) KernelDescribe(k gpubackend.Kernel, record []byte) (uint64, gpubackend.Result) {
	var device uint64
	if len(d.gpus) > 0 {
		device = d.gpus[0].native
	}
	if d.state != nil {
		device = d.gpus[d.state.gpu].native
	}
	return describeSubject(&subject{
		parameter: func(i int) (offset, size uint32, r gpubackend.Result) { return d.KernelParameter(k, i) },
		attribute: func(a int) (int32, gpubackend.Result) { return d.KernelAttribute(a, k, device) },
		name:      func() string { return d.KernelName(k) },
	}, record)
}

func (d *Device) parameterOf(f gpubackend.Function) func(int) (offset, size uint32, r gpubackend.Result) {
	return func(i int) (offset, size uint32, r gpubackend.Result) { return d.FuncParameter(f, i) }
}

// describeSubject writes what fits of a function record and returns the length of the whole.
func describeSubject(s *subject, record []byte) (uint64, gpubackend.Result) {
	var head wire.FunctionRecord
	layout, end, r := parameters(s.parameter)
	if r != gpubackend.Success {
		return 0, r
	}
	for a := range head.Attribute {
		value, r := s.attribute(a)
		if r.Sticky() || r == gpubackend.InvalidHandle || r == gpubackend.InvalidContext {
			return 0, r
		}
		head.Attribute[a] = value
	}
	name := s.name()
	head.Parameters = uint32(len(layout) / 8)
	head.ParameterBytes = end
	head.NameBytes = uint32(len(name))
	whole := make([]byte, wire.FunctionRecordSize, wire.FunctionRecordSize+len(layout)+len(name))
	head.Encode(whole)
	whole = append(append(whole, layout...), name...)
	copy(record, whole)
	return uint64(len(whole)), gpubackend.Success
}

// parameters asks for one parameter after the other until there is none: pairs of offset and size, and the end of
// the last.
func parameters(
	ask func(i int) (offset, size uint32, r gpubackend.Result),
) (layout []byte, end uint32, r gpubackend.Result) {
	for i := range maxParameters {
		offset, size, r := ask(i)
		if r == gpubackend.InvalidValue {
			return layout, end, gpubackend.Success
		}
		if r != gpubackend.Success {
			return nil, 0, r
		}
		layout = binary.LittleEndian.AppendUint32(layout, offset)
		layout = binary.LittleEndian.AppendUint32(layout, size)
		end = max(end, offset+size)
	}
	return layout, end, gpubackend.Success
}
