// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// maxParameters bounds the parameters of a kernel: 32,764 bytes of them, one byte each.
const maxParameters = 32764

// subject is a function or a kernel, whose questions have the same form.
type subject struct {
	handle              uint64
	parameter, name     symbol
	attribute           symbol
	device              uint64 // of a kernel's attributes
	attributeIsOfKernel bool
}

// FuncDescribe writes the function's record.
func (d *Device) FuncDescribe(f gpubackend.Function, record []byte) (uint64, gpubackend.Result) {
	return d.describeSubject(&subject{
		handle: uint64(f), parameter: symFuncGetParamInfo, name: symFuncGetName, attribute: symFuncGetAttribute,
	}, record)
}

// KernelDescribe writes the kernel's record. Attributes are those on the current context's device, or the first.
func (d *Device) KernelDescribe(k gpubackend.Kernel, record []byte) (uint64, gpubackend.Result) {
	s := &subject{
		handle: uint64(k), parameter: symKernelGetParamInfo, name: symKernelGetName, attribute: symKernelGetAttribute,
		attributeIsOfKernel: true,
	}
	if len(d.gpus) > 0 {
		s.device = d.gpus[0].native
	}
	if d.state != nil {
		s.device = d.gpus[d.state.gpu].native
	}
	return d.describeSubject(s, record)
}

// describeSubject writes what fits of a function record and returns the length of the whole.
func (d *Device) describeSubject(s *subject, record []byte) (uint64, gpubackend.Result) {
	var head wire.FunctionRecord
	layout, end, r := d.parameters(s)
	if r != gpubackend.Success {
		return 0, r
	}
	for a := range head.Attribute {
		value, r := d.attribute(s, a)
		if r.Sticky() || r == gpubackend.InvalidHandle || r == gpubackend.InvalidContext {
			return 0, r
		}
		head.Attribute[a] = value
	}
	name := ""
	if d.call(s.name, d.out(0), s.handle) == gpubackend.Success {
		name = textAt(d.value(0))
	}
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
func (d *Device) parameters(s *subject) (layout []byte, end uint32, r gpubackend.Result) {
	for i := range uint64(maxParameters) {
		r = d.call(s.parameter, s.handle, i, d.out(0), d.out(1))
		if r == gpubackend.InvalidValue {
			return layout, end, gpubackend.Success
		}
		if r != gpubackend.Success {
			return nil, 0, r
		}
		offset, size := uint32(d.value(0)), uint32(d.value(1))
		layout = binary.LittleEndian.AppendUint32(layout, offset)
		layout = binary.LittleEndian.AppendUint32(layout, size)
		end = max(end, offset+size)
	}
	return layout, end, gpubackend.Success
}

func (d *Device) attribute(s *subject, a int) (int32, gpubackend.Result) {
	var r gpubackend.Result
	if s.attributeIsOfKernel {
		r = d.call(s.attribute, d.out(0), uint64(a), s.handle, s.device)
	} else {
		r = d.call(s.attribute, d.out(0), uint64(a), s.handle)
	}
	return int32(uint32(d.value(0))), r
}
