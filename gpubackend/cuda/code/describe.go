// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// subject is a function or a kernel: how its parameters, attributes and name are asked for.
type subject struct {
	parameters func() (layout []byte, end uint32, r gpubackend.Result)
	attribute  func(a int) (int32, gpubackend.Result)
	name       func() string
}

// FuncDescribe writes the function's record.
func (x *Code) FuncDescribe(f gpubackend.Function, record []byte) (uint64, gpubackend.Result) {
	return describe(&subject{
		parameters: func() (layout []byte, end uint32, r gpubackend.Result) {
			return x.calls.FuncParameters(f)
		},
		attribute: func(a int) (int32, gpubackend.Result) { return x.calls.FuncAttribute(a, f) },
		name:      func() string { return x.calls.FuncName(f) },
	}, record)
}

// KernelDescribe writes the kernel's record. Attributes are those on the current context's device,
// or the first.
func (x *Code) KernelDescribe(k gpubackend.Kernel, record []byte) (uint64, gpubackend.Result) {
	var device uint64
	if g := x.gpu(); g != nil {
		device = g.Native
	}
	return describe(&subject{
		parameters: func() (layout []byte, end uint32, r gpubackend.Result) {
			return x.calls.KernelParameters(k)
		},
		attribute: func(a int) (int32, gpubackend.Result) {
			return x.calls.KernelAttribute(a, k, device)
		},
		name: func() string { return x.calls.KernelName(k) },
	}, record)
}

// gpu is the GPU of the current context, or the first one; nil where there is none.
func (x *Code) gpu() *gpus.GPU {
	if c := x.contexts.Current(); c != nil {
		return x.gpus.At(c.GPU)
	}
	if x.gpus.Len() == 0 {
		return nil
	}
	return x.gpus.At(0)
}

// describe writes what fits of a function record and returns the length of the whole.
func describe(s *subject, record []byte) (uint64, gpubackend.Result) {
	var head wire.FunctionRecord
	layout, end, r := s.parameters()
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
