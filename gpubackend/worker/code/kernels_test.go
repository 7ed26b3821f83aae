// SPDX-License-Identifier: Apache-2.0

package code

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeDriver gives a kernel's function a number of its own and counts the questions.
type fakeDriver struct {
	asked  int
	refuse gpubackend.Result
}

func (d *fakeDriver) KernelGetFunction(
	k gpubackend.Kernel,
) (gpubackend.Function, gpubackend.Result) {
	d.asked++
	return 1000 + gpubackend.Function(k), d.refuse
}

func TestFind(t *testing.T) {
	var objects object.Table
	d := &fakeDriver{}
	k := New(d, &objects)
	context := objects.Add(object.Context, 1, 0)
	function, kernel := objects.Add(object.Function, 5, 0), objects.Add(object.Kernel, 6, 0)
	c := &call.Call{Context: context}
	for _, tt := range []struct {
		handle uint64
		want   gpubackend.Function
		result gpubackend.Result
		asked  int
	}{
		{function, 5, 0, 0}, {kernel, 1006, 0, 1}, {kernel, 1006, 0, 1},
		{context, 0, gpubackend.InvalidHandle, 1}, {77, 0, gpubackend.InvalidHandle, 1},
	} {
		got, result := k.Find(c, tt.handle)
		if got != tt.want || result != tt.result || d.asked != tt.asked {
			t.Errorf("%#x: %d, %v, asked %d times", tt.handle, got, result, d.asked)
		}
	}
	if k.Name(5) != function || k.Name(1006) != kernel || k.Name(6) != kernel || k.Name(7) != 0 {
		t.Errorf("names %#x, %#x, %#x, %#x", k.Name(5), k.Name(1006), k.Name(6), k.Name(7))
	}
	d.refuse = gpubackend.InvalidContext
	if _, result := k.Find(&call.Call{Context: 9}, kernel); result != gpubackend.InvalidContext ||
		k.Known() != 1 {
		t.Errorf("refused: %v, %d known", result, k.Known())
	}
}

func TestForget(t *testing.T) {
	var objects object.Table
	k := New(&fakeDriver{}, &objects)
	one, two := objects.Add(object.Context, 1, 0), objects.Add(object.Context, 2, 0)
	library := objects.Add(object.Library, 3, 0)
	kept, gone := objects.Add(object.Kernel, 6, 0), objects.Add(object.Kernel, 7, library)
	for _, context := range []uint64{one, two} {
		k.Find(&call.Call{Context: context}, kept)
		k.Find(&call.Call{Context: context}, gone)
	}
	unload := k.Steps()[gpubackend.OpLibraryUnload]
	unload(nil, func(*call.Call) gpubackend.Result { return gpubackend.InvalidHandle })
	if k.Known() != 4 {
		t.Errorf("%d known after an unload that failed", k.Known())
	}
	unload(nil,
		func(*call.Call) gpubackend.Result { objects.Remove(library); return gpubackend.Success })
	if k.Known() != 2 {
		t.Errorf("%d known after the unload", k.Known())
	}
	k.Forget(one)
	objects.Remove(two)
	if k.Forget(0); k.Known() != 0 {
		t.Errorf("%d known without contexts", k.Known())
	}
}

// TestEndsWithContext: a library's modules and functions end with the context in which the guest
// got them, and what is in them.
func TestEndsWithContext(t *testing.T) {
	var objects object.Table
	k := New(&fakeDriver{}, &objects)
	one, two := objects.Add(object.Context, 1, 0), objects.Add(object.Context, 2, 0)
	library := objects.Add(object.Library, 3, 0)
	kernel := objects.Add(object.Kernel, 4, library)
	get := func(op gpubackend.Op, context uint64, result gpubackend.Result, h uint64) uint64 {
		c := call.New(nil)
		c.Context = context
		k.Steps()[op](&c, func(c *call.Call) gpubackend.Result {
			c.Answer(h)
			return result
		})
		return h
	}
	const module, function = gpubackend.OpLibraryGetModule, gpubackend.OpKernelGetFunction
	m := get(module, one, gpubackend.Success, objects.Add(object.Module, 5, library))
	in := objects.Add(object.Function, 6, m)
	f := get(function, one, gpubackend.Success, objects.Add(object.Function, 7, kernel))
	other := get(function, two, gpubackend.Success, objects.Add(object.Function, 8, kernel))
	get(function, one, gpubackend.InvalidHandle, kernel)
	k.Forget(one)
	for h, want := range map[uint64]bool{m: false, in: false, f: false, other: true, kernel: true,
		library: true} {
		if objects.Has(h) != want {
			t.Errorf("%#x is there: %t", h, !want)
		}
	}
	objects.Remove(library)
	if k.Forget(0); len(k.made) != 0 {
		t.Errorf("%v are left", k.made)
	}
}
