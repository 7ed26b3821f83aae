// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// attributes are those that can be set, and which of them were.
type attributes struct {
	value [cudaabi.FuncAttributeCount]int32
	set   [cudaabi.FuncAttributeCount]bool
	cache uint64
}

func newAttributes(k *decoded.Kernel) attributes {
	var a attributes
	a.value[cudaabi.FuncAttributeMaxDynamicSharedSizeBytes] = int32(max(0,
		chip.SharedPerBlock-int64(k.StaticShared)))
	a.value[cudaabi.FuncAttributePreferredSharedMemoryCarveout] = -1
	return a
}

// change sets an attribute of a function with that much static shared memory.
func (a *attributes) change(attribute, value uint64, static uint64) gpubackend.Result {
	v := int64(int32(value))
	valid := false
	switch attribute {
	case cudaabi.FuncAttributeMaxDynamicSharedSizeBytes:
		valid = v >= 0 && v+int64(static) <= chip.SharedPerBlockOptIn
	case cudaabi.FuncAttributePreferredSharedMemoryCarveout:
		valid = v >= -1 && v <= 100
	case cudaabi.FuncAttributeNonPortableClusterSizeAllowed:
		valid = v == 0 || v == 1
	case cudaabi.FuncAttributeClusterSchedulingPolicyPreference:
		valid = v >= 0 && v <= 2
	case cudaabi.FuncAttributeRequiredClusterWidth, cudaabi.FuncAttributeRequiredClusterWidth + 1,
		cudaabi.FuncAttributeRequiredClusterDepth:
		if v != 0 {
			return gpubackend.NotSupported // no clusters here
		}
		valid = true
	}
	if !valid {
		return gpubackend.InvalidValue
	}
	a.value[attribute], a.set[attribute] = int32(v), true
	return gpubackend.Success
}

// Function is a CUfunction.
type Function struct {
	Module *Module
	Entry  *decoded.Kernel
	kernel *kernelObject // nil for a module's own
	handle uint64
	attributes
}

// Owner implements contexts.Owned.
func (f *Function) Owner() *contexts.Context { return f.Module.Context }

// functionNamed returns a module's function; it is the same each time.
func (x *Code) functionNamed(m *Module, name string) (*Function, gpubackend.Result) {
	if f := m.functions[name]; f != nil {
		return f, gpubackend.Success
	}
	if name == "" {
		return nil, gpubackend.InvalidValue
	}
	entry := m.Program.Kernel(name)
	if entry == nil {
		return nil, gpubackend.NotFound
	}
	f := &Function{Module: m, Entry: entry, attributes: newAttributes(entry)}
	f.handle = x.options.Handles.Add(f)
	m.functions[name] = f
	return f, gpubackend.Success
}

// MostDynamic is how much dynamic shared memory a launch may ask for.
func (f *Function) MostDynamic() int32 {
	return f.attribute(cudaabi.FuncAttributeMaxDynamicSharedSizeBytes)
}

// Blocks is how many blocks of the function a multiprocessor holds.
func (f *Function) Blocks(threads int, dynamic uint64) int {
	if dynamic > uint64(max(0, f.MostDynamic())) {
		return 0
	}
	return chip.Blocks(f.Entry, threads, dynamic)
}

// Function returns the function of a handle if its context is usable.
func (x *Code) Function(h gpubackend.Function) (*Function, gpubackend.Result) {
	if _, result := x.options.Contexts.Current(); result != gpubackend.Success {
		return nil, result
	}
	f, ok := handles.Find[*Function](x.options.Handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return f, f.Module.Context.State()
}

// attribute returns a settable attribute; what was set for the kernel holds until it is set for the
// function.
func (f *Function) attribute(i int) int32 {
	if f.kernel != nil && f.kernel.set[i] && !f.set[i] {
		return f.kernel.value[i]
	}
	return f.value[i]
}

// record describes a kernel as docs/protocol.md says.
func record(k *decoded.Kernel, arch int, attribute func(int) int32) []byte {
	r := wire.FunctionRecord{
		Parameters: uint32(len(k.Params)), ParameterBytes: uint32(k.ParamSize),
		NameBytes: uint32(len(k.Name)),
	}
	for i := range r.Attribute {
		r.Attribute[i] = attribute(i)
	}
	r.Attribute[cudaabi.FuncAttributeMaxThreadsPerBlock] = int32(chip.MaxThreads(k))
	r.Attribute[cudaabi.FuncAttributeSharedSizeBytes] = int32(k.StaticShared)
	r.Attribute[cudaabi.FuncAttributeConstSizeBytes] = int32(k.ConstSize)
	r.Attribute[cudaabi.FuncAttributeLocalSizeBytes] = int32(k.LocalSize)
	r.Attribute[cudaabi.FuncAttributeNumRegs] = int32(chip.Registers(k))
	r.Attribute[cudaabi.FuncAttributePTXVersion] = int32(arch)
	r.Attribute[cudaabi.FuncAttributeBinaryVersion] = chip.Architecture
	b := make([]byte, wire.FunctionRecordSize, wire.FunctionRecordSize+8*len(k.Params)+len(k.Name))
	r.Encode(b)
	for _, p := range k.Params {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Offset))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Size))
	}
	return append(b, k.Name...)
}

// FuncDescribe implements gpubackend.Driver. It returns the size of the whole record and writes
// what fits.
func (x *Code) FuncDescribe(h gpubackend.Function, buffer []byte) (uint64, gpubackend.Result) {
	f, result := x.Function(h)
	if result != gpubackend.Success {
		return 0, result
	}
	b := record(f.Entry, f.Module.arch, f.attribute)
	copy(buffer, b)
	return uint64(len(b)), gpubackend.Success
}

// KernelDescribe implements gpubackend.Driver. It returns the size of the whole record and writes
// what fits.
func (x *Code) KernelDescribe(h gpubackend.Kernel, buffer []byte) (uint64, gpubackend.Result) {
	k, result := x.kernelObject(h)
	if result != gpubackend.Success {
		return 0, result
	}
	b := record(k.entry, k.library.parsed.Arch, func(i int) int32 { return k.value[i] })
	copy(buffer, b)
	return uint64(len(b)), gpubackend.Success
}

// FuncSetAttribute implements gpubackend.Driver.
func (x *Code) FuncSetAttribute(h gpubackend.Function, attribute, value uint64) gpubackend.Result {
	f, result := x.Function(h)
	if result != gpubackend.Success {
		return result
	}
	return f.change(attribute, value, f.Entry.StaticShared)
}

// KernelSetAttribute implements gpubackend.Driver.
func (x *Code) KernelSetAttribute(
	attribute, value uint64, h gpubackend.Kernel, dev uint64,
) gpubackend.Result {
	k, result := x.kernelObject(h)
	if result == gpubackend.Success {
		result = x.options.Contexts.CheckDevice(dev)
	}
	if result != gpubackend.Success {
		return result
	}
	return k.change(attribute, value, k.entry.StaticShared)
}

// FuncSetCacheConfig implements gpubackend.Driver.
func (x *Code) FuncSetCacheConfig(h gpubackend.Function, config uint64) gpubackend.Result {
	f, result := x.Function(h)
	if result != gpubackend.Success {
		return result
	}
	return f.setCache(config)
}

// KernelSetCacheConfig implements gpubackend.Driver.
func (x *Code) KernelSetCacheConfig(h gpubackend.Kernel, config, dev uint64) gpubackend.Result {
	k, result := x.kernelObject(h)
	if result == gpubackend.Success {
		result = x.options.Contexts.CheckDevice(dev)
	}
	if result != gpubackend.Success {
		return result
	}
	return k.setCache(config)
}

func (a *attributes) setCache(config uint64) gpubackend.Result {
	if config > chip.LastCacheConfig {
		return gpubackend.InvalidValue
	}
	a.cache = config
	return gpubackend.Success
}
