// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// Options are CUjit_option as the driver takes them: an array of numbers and one of values.
type Options struct {
	Count       int
	IDs, Values cmem.Memory
}

// ModuleLoad loads an image, with zeros after it, into the current context.
func (d Code) ModuleLoad(image cmem.Memory, o *Options) (gpubackend.Module, gpubackend.Result) {
	r := d.call(symModuleLoadDataEx, d.out(0), image.Address(), uint64(o.Count), o.IDs.Address(),
		o.Values.Address())
	return gpubackend.Module(d.value(0)), r
}

// LibraryLoad loads an image, with zeros after it, for all contexts.
func (d Code) LibraryLoad(
	image cmem.Memory, o *Options,
) (gpubackend.Library, gpubackend.Result) {
	r := d.call(symLibraryLoadData, d.out(0), image.Address(), o.IDs.Address(), o.Values.Address(),
		uint64(o.Count), 0, 0, 0)
	return gpubackend.Library(d.value(0)), r
}

// LinkCreate begins a link. The driver writes to the logs of the options until it is destroyed.
func (d Code) LinkCreate(o *Options) (gpubackend.Link, gpubackend.Result) {
	r := d.call(symLinkCreate, uint64(o.Count), o.IDs.Address(), o.Values.Address(), d.out(0))
	return gpubackend.Link(d.value(0)), r
}

// LinkAddData adds n bytes of data.
func (d Code) LinkAddData(
	l gpubackend.Link, kind uint64, data cmem.Memory, n int, name string, o *Options,
) gpubackend.Result {
	return d.call(symLinkAddData, uint64(l), kind, data.Address(), uint64(n), d.text(name),
		uint64(o.Count),
		o.IDs.Address(), o.Values.Address())
}

// LinkComplete makes the image, which is the driver's until the link is destroyed.
func (d Code) LinkComplete(l gpubackend.Link) (addr, bytes uint64, r gpubackend.Result) {
	r = d.call(symLinkComplete, uint64(l), d.out(0), d.out(1))
	return d.value(0), d.value(1), r
}

// LibraryKernels gives the first n kernels of a library.
func (d Code) LibraryKernels(l gpubackend.Library, n int) ([]uint64, gpubackend.Result) {
	return d.enumerate(symLibraryEnumerateKernels, uint64(l), n)
}

// ModuleFunctions gives the first n functions of a module.
func (d Code) ModuleFunctions(m gpubackend.Module, n int) ([]uint64, gpubackend.Result) {
	return d.enumerate(symModuleEnumerateFunctions, uint64(m), n)
}

func (d Code) enumerate(s symbol, of uint64, n int) ([]uint64, gpubackend.Result) {
	b := cmem.Allocate(8 * n)
	defer b.Free()
	if r := d.call(s, b.Address(), uint64(n), of); r != gpubackend.Success {
		return nil, r
	}
	return b.Words()[:n], gpubackend.Success
}

// FuncAttribute reads an attribute of a function.
func (d Code) FuncAttribute(attribute int, f gpubackend.Function) (int32, gpubackend.Result) {
	r := d.call(symFuncGetAttribute, d.out(0), uint64(attribute), uint64(f))
	return int32(uint32(d.value(0))), r
}

// KernelAttribute reads an attribute of a kernel on a GPU.
func (d Code) KernelAttribute(
	attribute int, k gpubackend.Kernel, device uint64,
) (int32, gpubackend.Result) {
	r := d.call(symKernelGetAttribute, d.out(0), uint64(attribute), uint64(k), device)
	return int32(uint32(d.value(0))), r
}

// FuncName is a function's name; empty where the driver doesn't say.
func (d Code) FuncName(f gpubackend.Function) string {
	return d.nameOf(symFuncGetName, uint64(f))
}

// KernelName is a kernel's name.
func (d Code) KernelName(k gpubackend.Kernel) string {
	return d.nameOf(symKernelGetName, uint64(k))
}

func (d Code) nameOf(s symbol, of uint64) string {
	if d.call(s, d.out(0), of) != gpubackend.Success {
		return ""
	}
	return cmem.TextAt(d.value(0))
}

// MaxActiveClusters asks how many clusters of a launch are resident at a time.
func (d Code) MaxActiveClusters(
	f gpubackend.Function, config cmem.Memory,
) (int32, gpubackend.Result) {
	return d.askCluster(symOccupancyMaxActiveClusters, f, config)
}

// MaxPotentialClusterSize asks for the largest cluster that a launch may have.
func (d Code) MaxPotentialClusterSize(
	f gpubackend.Function, config cmem.Memory,
) (int32, gpubackend.Result) {
	return d.askCluster(symOccupancyMaxPotentialClusterSize, f, config)
}

func (d Code) askCluster(
	s symbol, f gpubackend.Function, config cmem.Memory,
) (int32, gpubackend.Result) {
	r := d.call(s, d.out(0), uint64(f), config.Address())
	return int32(uint32(d.value(0))), r
}
