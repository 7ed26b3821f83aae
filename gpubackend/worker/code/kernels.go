// SPDX-License-Identifier: Apache-2.0

// Package code finds the functions that the guest launches. Wherever CUDA takes a function it also
// takes a kernel of a library. Which function that is depends on the context, and is remembered.
// The modules and functions of libraries that the guest asks for end with the context in which they
// are, although the library stays.
//
// The worker's loop owns a Kernels. Handles are the guest's word and are looked up in the object
// table.
package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// Driver is what Kernels uses of gpubackend.Driver.
type Driver interface {
	KernelGetFunction(k gpubackend.Kernel) (gpubackend.Function, gpubackend.Result)
}

// key is a kernel in a context.
type key struct{ context, kernel uint64 }

// Kernels has the functions of kernels.
type Kernels struct {
	driver  Driver
	objects *object.Table
	known   map[key]gpubackend.Function
	made    map[uint64]uint64 // contexts of what the guest has asked for, by its handle
}

// New returns a Kernels that knows none.
func New(d Driver, objects *object.Table) *Kernels {
	return &Kernels{driver: d, objects: objects, known: map[key]gpubackend.Function{},
		made: map[uint64]uint64{}}
}

// Find returns a function, or the function of a kernel.
func (k *Kernels) Find(c *call.Call, handle uint64) (gpubackend.Function, gpubackend.Result) {
	if f, ok := k.objects.Lookup(object.Function, handle); ok {
		return gpubackend.Function(f), gpubackend.Success
	}
	kernel, result := handles.Kernel(k.objects, handle)
	if result != gpubackend.Success {
		return 0, result
	}
	at := key{c.Context, handle}
	if f, ok := k.known[at]; ok {
		return f, gpubackend.Success
	}
	f, result := k.driver.KernelGetFunction(kernel)
	if result == gpubackend.Success {
		k.known[at] = f
	}
	return f, result
}

// Name returns the guest's handle of a function, or of the kernel to which it belongs.
func (k *Kernels) Name(f gpubackend.Function) uint64 {
	if h := k.objects.Existing(object.Function, uint64(f)); h != 0 {
		return h
	}
	for at, g := range k.known {
		if g == f {
			return at.kernel
		}
	}
	return k.objects.Existing(object.Kernel, uint64(f))
}

// Forget drops what libraries have in a context, and what is known of those without handles.
func (k *Kernels) Forget(context uint64) {
	for h, in := range k.made {
		if in == context {
			k.objects.Remove(h)
		}
		if !k.objects.Has(h) {
			delete(k.made, h)
		}
	}
	for at := range k.known {
		_, there := k.objects.Lookup(object.Kernel, at.kernel)
		_, in := k.objects.Lookup(object.Context, at.context)
		if !there || !in || at.context == context {
			delete(k.known, at)
		}
	}
}

// Steps are what this room does around the handlers of others.
func (k *Kernels) Steps() call.Steps {
	return call.Steps{
		gpubackend.OpLibraryUnload:     k.unload,
		gpubackend.OpLibraryGetModule:  k.note,
		gpubackend.OpKernelGetFunction: k.note,
	}
}

// note notes the context of what the guest gets.
func (k *Kernels) note(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := run(c)
	if a := c.Answers(); result == gpubackend.Success && len(a) > 0 {
		k.made[a[0]] = c.Context
	}
	return result
}

// unload unloads a library and forgets its kernels.
func (k *Kernels) unload(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := run(c)
	if result == gpubackend.Success {
		k.Forget(0)
	}
	return result
}

// Known is how many functions are remembered.
func (k *Kernels) Known() int { return len(k.known) }
