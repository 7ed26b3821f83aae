// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// withHost gives a rig so much of the host's memory beyond what it has already.
func (r *rig) withHost(bytes uint64) *budget.Budget {
	r.host = budget.New(bytes)
	r.objects.Memory, r.buffers.Host = r.host, r.host
	return r.host
}

// TestHandlesCount makes events until there is no memory for more: the device isn't asked then, and
// one that goes makes room.
func TestHandlesCount(t *testing.T) {
	r := newRig(t)
	host := r.withHost(1 << 20)
	var handles []uint64
	for r.call(t, gpubackend.OpEventCreate, 0) == gpubackend.Success {
		handles = append(handles, r.slot().Word[0])
	}
	if n := len(handles); n != 1<<10 || host.Used() != 1<<20 {
		t.Fatalf("%d events, and %d bytes are counted", n, host.Used())
	}
	r.objects.Remove(handles[0])
	if got := r.call(t, gpubackend.OpEventCreate, 0); got != gpubackend.Success {
		t.Fatalf("in place of one that went: %d", got)
	}
	for range r.objects.All(object.Event) {
		for h := range r.objects.All(object.Event) {
			r.objects.Remove(h)
			break
		}
	}
	if host.Used() != 0 {
		t.Errorf("%d bytes are counted for nothing", host.Used())
	}
}

// TestNoHandleWithoutMemory calls what makes objects of every kind.
func TestNoHandleWithoutMemory(t *testing.T) {
	r := newRig(t)
	r.withHost(0)
	r.contexts.Retained(0, r.context)
	words := make([]uint64, 12)
	for _, op := range []gpubackend.Op{
		gpubackend.OpCtxCreate, gpubackend.OpDevicePrimaryCtxRetain,
		gpubackend.OpStreamCreateWithPriority, gpubackend.OpEventCreate,
		gpubackend.OpModuleLoadData, gpubackend.OpModuleLoadManaged, gpubackend.OpModuleGetFunction,
		gpubackend.OpLibraryLoadData,
		gpubackend.OpLibraryLoadManaged, gpubackend.OpLibraryGetKernel,
		gpubackend.OpLibraryGetModule, gpubackend.OpGraphCreate,
		gpubackend.OpGraphClone, gpubackend.OpGraphInstantiateWithFlags, gpubackend.OpGraphAddNode,
		gpubackend.OpMemPoolCreate,
		gpubackend.OpLinkCreate, gpubackend.OpArrayCreate, gpubackend.OpArray3DCreate,
		gpubackend.OpMipmappedArrayCreate, gpubackend.OpTexRefCreate,
		gpubackend.OpIpcOpenEventHandle,
	} {
		if got := r.call(t, op, words...); got != gpubackend.OutOfMemory {
			t.Errorf("%s: %d", op.Name(), got)
		}
	}
}

// TestArgumentsCount: copies of arguments count while their command is executed, and there is no
// more than there is memory for.
func TestArgumentsCount(t *testing.T) {
	r := newRig(t)
	host := r.withHost(100 << 10)
	load := func(bytes uint64) gpubackend.Result {
		return r.call(t, gpubackend.OpManagedBytes, wire.BufferBulk<<56|wire.Bulk, bytes)
	}
	if got := load(60 << 10); got != gpubackend.NotSupported { // the fake device's answer
		t.Errorf("an image that fits: %d", got)
	}
	if host.Used() != 0 {
		t.Errorf("%d bytes are counted when it is gone", host.Used())
	}
	host.Force(60 << 10)
	if got := load(60 << 10); got != gpubackend.OutOfMemory {
		t.Errorf("one too many: %d", got)
	}
	if host.Used() != 60<<10 {
		t.Errorf("%d bytes are counted", host.Used())
	}
}
