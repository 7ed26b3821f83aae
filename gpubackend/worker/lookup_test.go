// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
)

// kernelDriver has kernels, and lets libraries and contexts go.
type kernelDriver struct{ *fakeDriver }

func (kernelDriver) KernelGetFunction(
	k gpubackend.Kernel,
) (gpubackend.Function, gpubackend.Result) {
	return gpubackend.Function(k), gpubackend.Success
}
func (kernelDriver) LibraryUnload(gpubackend.Library) gpubackend.Result {
	return gpubackend.Success
}
func (kernelDriver) CtxDestroy(gpubackend.Context) gpubackend.Result { return gpubackend.Success }

// library makes a library with a kernel and launches that.
func (r *rig) library(t *testing.T, native uint64) (library uint64) {
	t.Helper()
	library = r.objects.Add(object.Library, native, 0)
	kernel := r.objects.Add(object.Kernel, native+1, library)
	if got := r.call(t, gpubackend.OpLaunchKernel, kernel, 0, 1|1<<32, 1|32<<32, 1|1<<32, 0,
		0); got != 0 {
		t.Fatalf("launch: %d", got)
	}
	return library
}

// TestKernelsGoWithTheirLibrary: what is known of kernels is only of those that are there.
func TestKernelsGoWithTheirLibrary(t *testing.T) {
	r := newRig(t)
	r.use(kernelDriver{r.driver})
	kept := r.library(t, 100)
	for range 50 {
		if got := r.call(t, gpubackend.OpLibraryUnload, r.library(t, 200)); got != 0 {
			t.Fatalf("unload: %d", got)
		}
	}
	if r.kernels.Known() != 1 {
		t.Fatalf("%d kernels are known, of one that is there", r.kernels.Known())
	}
	first := r.context
	r.context = r.objects.Add(object.Context, 5, 0)
	r.library(t, 300)
	if got := r.call(t, gpubackend.OpCtxDestroy, first); got != 0 {
		t.Fatalf("destroy: %d", got)
	}
	if r.kernels.Known() != 1 {
		t.Fatalf("%d kernels are known, of one in a context that is there", r.kernels.Known())
	}
	if got := r.call(t, gpubackend.OpLibraryUnload, kept); got != 0 {
		t.Fatalf("unload: %d", got)
	}
}

// TestPoolCreateTakesItsWords: it asks for as many words as it reads, and none is left from the
// command before it.
func TestPoolCreateTakesItsWords(t *testing.T) {
	r := newRig(t)
	if got := r.call(t, gpubackend.OpMemPoolSetAttribute, 1, 2, pools.HandlePosixFile); got == 0 {
		t.Fatal("an attribute of no pool was set")
	}
	if got := r.call(t, gpubackend.OpMemPoolCreate, 0, 0); got != gpubackend.InvalidValue {
		t.Errorf("two words: %d", got)
	}
	if got := r.call(t, gpubackend.OpMemPoolCreate, 0, 0, 0); got != 0 {
		t.Errorf("three words: %d", got)
	}
	c := call.Call{Command: &r.command}
	r.command.Words[5], r.command.N = 7, 5
	if c.Word(5) != 0 {
		t.Error("a word that wasn't sent is that of the command before")
	}
}
