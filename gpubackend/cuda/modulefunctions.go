// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// functionList is the functions of the module that was enumerated last.
type functionList struct {
	module   gpubackend.Module
	function []gpubackend.Function
}

// ModuleEnumerateFunctions returns function number index of a module.
func (d *Device) ModuleEnumerateFunctions(index uint64, m gpubackend.Module) (gpubackend.Function, gpubackend.Result) {
	if d.functions.module != m || d.functions.function == nil || index == 0 {
		if r := d.enumerateFunctions(m); r != gpubackend.Success {
			return 0, r
		}
	}
	if index >= uint64(len(d.functions.function)) {
		return 0, gpubackend.InvalidValue
	}
	return d.functions.function[index], gpubackend.Success
}

func (d *Device) enumerateFunctions(m gpubackend.Module) gpubackend.Result {
	count, r := d.ModuleGetFunctionCount(m)
	if r != gpubackend.Success {
		return r
	}
	n := int(min(count, maxKernels))
	b := allocate(8 * n)
	defer b.free()
	if r = d.call(symModuleEnumerateFunctions, b.address(), uint64(n), uint64(m)); r != gpubackend.Success {
		return r
	}
	list := make([]gpubackend.Function, n)
	for i := range list {
		list[i] = gpubackend.Function(binary.LittleEndian.Uint64(b.bytes()[8*i:]))
	}
	d.functions = functionList{m, list}
	return gpubackend.Success
}
