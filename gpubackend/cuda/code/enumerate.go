// SPDX-License-Identifier: Apache-2.0

package code

import "github.com/paracuda/paracuda/gpubackend"

// enumeration has the parts of the module or library that was enumerated last: the driver gives all
// at once, our interface one by one.
type enumeration[Whole, Part ~uint64] struct {
	whole Whole
	parts []Part
}

// maxParts bounds what can be enumerated of one module or library.
const maxParts = 1 << 20

// at returns part number index of a whole, which has as many as count says. enumerate is the
// driver's function for them.
func (e *enumeration[Whole, Part]) at(
	index uint64, whole Whole, count func(Whole) (uint64, gpubackend.Result),
	enumerate func(whole Whole, n int) ([]uint64, gpubackend.Result),
) (Part, gpubackend.Result) {
	if e.whole != whole || e.parts == nil || index == 0 {
		n, r := count(whole)
		if r != gpubackend.Success {
			return 0, r
		}
		parts, r := enumerate(whole, int(min(n, maxParts)))
		if r != gpubackend.Success {
			return 0, r
		}
		e.whole, e.parts = whole, make([]Part, 0, len(parts))
		for _, part := range parts {
			e.parts = append(e.parts, Part(part))
		}
	}
	if index >= uint64(len(e.parts)) {
		return 0, gpubackend.InvalidValue
	}
	return e.parts[index], gpubackend.Success
}

// forget is called when the whole may have gone.
func (e *enumeration[Whole, Part]) forget() { *e = enumeration[Whole, Part]{} }

// LibraryEnumerateKernels returns kernel number index of a library.
func (x *Code) LibraryEnumerateKernels(
	index uint64, lib gpubackend.Library,
) (gpubackend.Kernel, gpubackend.Result) {
	return x.kernels.at(index, lib, x.calls.LibraryGetKernelCount, x.calls.LibraryKernels)
}

// ModuleEnumerateFunctions returns function number index of a module.
func (x *Code) ModuleEnumerateFunctions(
	index uint64, m gpubackend.Module,
) (gpubackend.Function, gpubackend.Result) {
	return x.functions.at(index, m, x.calls.ModuleGetFunctionCount, x.calls.ModuleFunctions)
}
