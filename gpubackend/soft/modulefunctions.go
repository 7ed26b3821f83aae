// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// ModuleGetFunctionCount implements gpubackend.Driver.
func (d *Device) ModuleGetFunctionCount(h gpubackend.Module) (uint64, gpubackend.Result) {
	m, result := d.module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return uint64(len(m.program.Kernels())), gpubackend.Success
}

// ModuleEnumerateFunctions implements gpubackend.Driver.
func (d *Device) ModuleEnumerateFunctions(index uint64, h gpubackend.Module) (gpubackend.Function, gpubackend.Result) {
	m, result := d.module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	kernels := m.program.Kernels()
	if index >= uint64(len(kernels)) {
		return 0, gpubackend.InvalidValue
	}
	return d.ModuleGetFunction(h, kernels[index].Name)
}
