// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// keptRig is a worker, and the guest's kernel as it sees maps that are kept.
type keptRig struct {
	*rig
	t     *testing.T
	queue *virtqueuetest.Driver
	kept  map[uint32]bool // maps whose pages the worker has, by the records that it wrote
}

// Where the guest has the records of EVENT and MAP chains, and their headers.
const (
	eventAt     = 0x10000
	chainsAt    = 0x20000
	keptAddress = 0x7000_0000_0000 // of a map, in the program
)

func newKeptRig(t *testing.T) *keptRig {
	r := &keptRig{rig: newRig(t), t: t, kept: map[uint32]bool{}}
	r.queue = r.withQueue(t)
	r.withHost(1 << 40)
	r.chains.kept.host = r.host
	return r
}

func (r *keptRig) write(b []byte, at uint64) {
	r.t.Helper()
	if err := r.chains.mem.Write(b, at); err != nil {
		r.t.Fatal(err)
	}
}

func (r *keptRig) word(at uint64) uint32 {
	r.t.Helper()
	var b [4]byte
	if err := r.chains.mem.Read(b[:], at); err != nil {
		r.t.Fatal(err)
	}
	return binary.LittleEndian.Uint32(b[:])
}

// offer makes a page available as a MAP with a record, and has the worker take it.
func (r *keptRig) offer(id uint32) {
	r.t.Helper()
	b := make([]byte, wire.ChainHeaderSize+wire.RunSize)
	h := wire.ChainHeader{Type: wire.ChainMap, Id: id, Bytes: 4096, Address: keptAddress, Runs: 1}
	h.Encode(b)
	run := wire.Run{Address: 0x300000, Bytes: 4096}
	run.Encode(b[wire.ChainHeaderSize:])
	at := chainsAt + uint64(id%64)*256
	r.write(b, at)
	r.write(make([]byte, wire.MapRecordSize), at+128)
	_, err := r.queue.Add(virtqueuetest.Desc{Addr: at, Len: uint32(len(b))},
		virtqueuetest.Desc{Addr: at + 128, Len: wire.MapRecordSize, Flags: virtqueuetest.Write})
	if err != nil {
		r.t.Fatal(err)
	}
	r.take()
	if written := r.reap(); r.word(at+128) == 1 && written == wire.MapRecordSize {
		if r.kept[id] {
			r.t.Fatalf("map %d is kept twice", id)
		}
		r.kept[id] = true
	} else if written != 0 {
		r.t.Fatalf("map %d: %d bytes were written", id, written)
	}
}

func (r *keptRig) take() {
	r.t.Helper()
	if _, err := r.chains.takeChains(); err != nil {
		r.t.Fatal(err)
	}
}

// reap takes one chain back, and says how much was written to it.
func (r *keptRig) reap() uint32 {
	r.t.Helper()
	_, written, ok := r.queue.Reap()
	if !ok {
		r.t.Fatal("no chain came back")
	}
	return written
}

// listen makes an EVENT available, has the worker signal, and returns the maps that it names.
func (r *keptRig) listen() (ids []uint32) {
	r.t.Helper()
	b := make([]byte, wire.ChainHeaderSize)
	h := wire.ChainHeader{Type: wire.ChainEvent}
	h.Encode(b)
	r.write(b, eventAt)
	_, err := r.queue.Add(virtqueuetest.Desc{Addr: eventAt, Len: wire.ChainHeaderSize},
		virtqueuetest.Desc{Addr: eventAt + 64, Len: wire.EventRecordSize,
			Flags: virtqueuetest.Write})
	if err != nil {
		r.t.Fatal(err)
	}
	r.take()
	r.chains.signal()
	written := r.reap()
	count := r.word(eventAt + 64 + wire.EventRecordCountOffset)
	if r.word(eventAt+64) != wire.EventReturned || written != wire.EventRecordMapsOffset+4*count {
		r.t.Fatalf("events %d, %d maps in %d bytes", r.word(eventAt+64), count, written)
	}
	for i := range uint64(count) {
		id := r.word(eventAt + 64 + wire.EventRecordMapsOffset + 4*i)
		if !r.kept[id] {
			r.t.Fatalf("map %d goes back, which wasn't kept", id)
		}
		delete(r.kept, id)
		ids = append(ids, id)
	}
	return ids
}

func (r *keptRig) unmap(id uint32) gpubackend.Result {
	return r.call(r.t, gpubackend.Op(wire.OpUnmap), uint64(id))
}

// TestKeptMaps pins 10,000 pieces through a queue of 16 entries, and gives them back in another
// order.
func TestKeptMaps(t *testing.T) {
	r := newKeptRig(t)
	const n = 10000
	for id := range uint32(n) {
		r.offer(id)
	}
	if len(r.kept) != n || r.host.Used() != n*(mapBytes+wire.RunSize) {
		t.Fatalf("%d of %d maps are kept, %d bytes count", len(r.kept), n, r.host.Used())
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for _, id := range order {
		if result := r.unmap(uint32(id)); result != gpubackend.Success {
			t.Fatalf("unmap %d: %d", id, result)
		}
	}
	r.chains.signal() // there is no EVENT: nothing can be said, and nothing is lost
	var told []int
	for len(told) < n {
		for _, id := range r.listen() {
			told = append(told, int(id))
		}
	}
	if !slices.Equal(told, order) || len(r.kept)+r.chains.kept.maps != 0 || r.host.Used() != 0 {
		t.Errorf("%d are told, %d are kept, %d bytes count", len(told), len(r.kept), r.host.Used())
	}
}

// TestUnknownMaps names maps that aren't there, or not any more, and offers one twice.
func TestUnknownMaps(t *testing.T) {
	r := newKeptRig(t)
	r.offer(7)
	before := r.host.Used()
	delete(r.kept, 7)
	if r.offer(7); r.kept[7] || r.host.Used() != before {
		t.Error("a map is taken twice under one id")
	}
	r.kept[7] = true
	for i, want := range []gpubackend.Result{
		gpubackend.Success, gpubackend.InvalidValue, gpubackend.InvalidValue,
	} {
		if got := r.unmap(7); got != want {
			t.Errorf("unmap number %d: %d, want %d", i, got, want)
		}
	}
	if got := r.unmap(8); got != gpubackend.InvalidValue {
		t.Errorf("unmap of nothing: %d", got)
	}
	if got := r.listen(); !slices.Equal(got, []uint32{7}) {
		t.Errorf("maps %d go back", got)
	}
}

// TestKeptMapsAreBounded: those count, too, of which the guest is yet to be told.
func TestKeptMapsAreBounded(t *testing.T) {
	r := newKeptRig(t)
	for id := range uint32(wire.KeptMaps) {
		r.offer(id)
	}
	last := uint32(wire.KeptMaps)
	if r.offer(last); len(r.kept) != wire.KeptMaps || r.kept[last] {
		t.Fatalf("%d maps are kept", len(r.kept))
	}
	r.unmap(3)
	if r.offer(last); r.kept[last] {
		t.Error("one more is kept, while the guest still counts one that goes back")
	}
	r.listen()
	if r.offer(last); !r.kept[last] {
		t.Error("what went back makes no room")
	}
}

// TestMapsWithoutHostMemory are kept without their pages: commands say why they can't have them.
func TestMapsWithoutHostMemory(t *testing.T) {
	r := newKeptRig(t)
	r.host = budget.New(mapBytes + wire.RunSize)
	r.chains.kept.host = r.host
	r.offer(1)
	r.offer(2)
	for _, op := range []gpubackend.Op{gpubackend.OpHostRegister, gpubackend.OpHostPageable} {
		if got := r.call(t, op, 2, keptAddress, 4096, 0); got != gpubackend.OutOfMemory {
			t.Errorf("%s: %d", op.Name(), got)
		}
	}
	got := r.call(t, gpubackend.OpCopyHtoD, 0, wire.BufferMap<<56|2<<32, 16, 16, 0, 0)
	if got != gpubackend.OutOfMemory {
		t.Errorf("copy: %d", got)
	}
	if r.unmap(2) != gpubackend.Success || r.unmap(1) != gpubackend.Success {
		t.Error("what can't be used can't be given back")
	}
	if n := len(r.listen()); n != 2 || r.host.Used() != 0 {
		t.Errorf("%d maps went back; %d bytes count", n, r.host.Used())
	}
}

// TestRandomKeptMaps compares the worker with a set.
func TestRandomKeptMaps(t *testing.T) {
	r, random := newKeptRig(t), rand.New(rand.NewPCG(3, 4))
	var mine []uint32
	pending, next := map[uint32]bool{}, uint32(1)
	for range 3000 {
		switch random.IntN(3) {
		case 0:
			r.offer(next)
			mine = append(mine, next)
			next++
		case 1:
			if len(mine) > 0 {
				i := random.IntN(len(mine))
				if got := r.unmap(mine[i]); got != gpubackend.Success {
					t.Fatalf("unmap %d: %d", mine[i], got)
				}
				pending[mine[i]] = true
				mine = slices.Delete(mine, i, i+1)
			}
		case 2:
			if len(pending) > 0 {
				for _, id := range r.listen() {
					if !pending[id] {
						t.Fatalf("map %d goes back though it is in use", id)
					}
					delete(pending, id)
				}
			}
		}
		known, all := len(r.chains.maps), len(mine)+len(pending)
		if known != len(mine) || len(r.kept) != all || r.chains.kept.maps != all {
			t.Fatalf("%d are kept, %d known, of %d and %d", len(r.kept), known, all, len(mine))
		}
	}
}
