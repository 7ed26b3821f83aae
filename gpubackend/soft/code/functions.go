// SPDX-License-Identifier: Apache-2.0

package code

import "github.com/paracuda/paracuda/gpubackend"

// ModuleGetFunctionCount implements gpubackend.Driver.
func (x *Code) ModuleGetFunctionCount(h gpubackend.Module) (uint64, gpubackend.Result) {
	m, result := x.Module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return uint64(len(m.Program.Kernels())), gpubackend.Success
}

// ModuleEnumerateFunctions implements gpubackend.Driver.
func (x *Code) ModuleEnumerateFunctions(
	index uint64, h gpubackend.Module,
) (gpubackend.Function, gpubackend.Result) {
	m, result := x.Module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	kernels := m.Program.Kernels()
	if index >= uint64(len(kernels)) {
		return 0, gpubackend.InvalidValue
	}
	return x.ModuleGetFunction(h, kernels[index].Name)
}
