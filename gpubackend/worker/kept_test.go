// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const keptAddress = 0x7000_0000_0000 // of a map, in the program

// offerKept makes a page available as a MAP with a record, and has the worker take it.
func (r *rig) offerKept(t *testing.T, d *virtqueuetest.Driver, id uint32) {
	t.Helper()
	at := r.guest.Alloc(256, 8)
	wiretest.Chain(r.guest.Write, at,
		wire.ChainHeader{Type: wire.ChainMap, Id: id, Bytes: 4096, Address: keptAddress},
		wire.Run{Address: 0x300000, Bytes: 4096})
	_, err := d.Add(virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize},
		virtqueuetest.Desc{Addr: at + 128, Len: wire.MapRecordSize, Flags: virtqueuetest.Write})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.queue.Take(); err != nil {
		t.Fatal(err)
	}
	if _, written, ok := d.Reap(); !ok || written != wire.MapRecordSize {
		t.Fatalf("map %d: %d bytes were written", id, written)
	}
}

func (r *rig) unmap(t *testing.T, id uint32) gpubackend.Result {
	t.Helper()
	return r.call(t, gpubackend.Op(wire.OpUnmap), uint64(id))
}

// TestUnmap gives back what is there, once.
func TestUnmap(t *testing.T) {
	r := newRig(t)
	r.offerKept(t, r.withQueue(t), 7)
	for i, want := range []gpubackend.Result{
		gpubackend.Success, gpubackend.InvalidValue, gpubackend.InvalidValue,
	} {
		if got := r.unmap(t, 7); got != want {
			t.Errorf("unmap number %d: %d, want %d", i, got, want)
		}
	}
	if got := r.unmap(t, 8); got != gpubackend.InvalidValue {
		t.Errorf("unmap of nothing: %d", got)
	}
}

// TestMapsWithoutHostMemory: if there is no memory for the pages of a map, it is kept without them,
// and commands that name it fail with OutOfMemory.
func TestMapsWithoutHostMemory(t *testing.T) {
	r := newRig(t)
	host, a := r.withHost(400), r.arena // for one map
	r.queue = r.newQueue(-1)
	r.queue.Use(a)
	r.use(r.driver)
	d := r.withQueue(t)
	before := host.Used()
	r.offerKept(t, d, 1)
	r.offerKept(t, d, 2)
	for _, op := range []gpubackend.Op{gpubackend.OpHostRegister, gpubackend.OpHostPageable} {
		if got := r.call(t, op, 2, keptAddress, 4096, 0); got != gpubackend.OutOfMemory {
			t.Errorf("%s: %d", op.Name(), got)
		}
	}
	got := r.call(t, gpubackend.OpCopyHtoD, 0, wire.BufferMap<<56|2<<32, 16, 16, 0, 0)
	if got != gpubackend.OutOfMemory {
		t.Errorf("copy: %d", got)
	}
	if r.unmap(t, 2) != gpubackend.Success || r.unmap(t, 1) != gpubackend.Success {
		t.Error("what can't be used can't be given back")
	}
	if host.Used() != before {
		t.Errorf("%d bytes count, %d did", host.Used(), before)
	}
}
