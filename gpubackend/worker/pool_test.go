// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// poolDriver has memory, and events that are done when it says so.
type poolDriver struct {
	fakeDriver
	next  uint64
	live  map[uint64]uint64
	limit uint64
	event gpubackend.Event
}

func (d *poolDriver) MemAlloc(bytes uint64) (uint64, gpubackend.Result) {
	used := uint64(0)
	for _, n := range d.live {
		used += n
	}
	if used+bytes > d.limit {
		return 0, gpubackend.OutOfMemory
	}
	d.next += 1 << 20
	d.live[d.next] = bytes
	return d.next, gpubackend.Success
}

func (d *poolDriver) MemFree(addr uint64) gpubackend.Result {
	if _, ok := d.live[addr]; !ok {
		return gpubackend.InvalidValue
	}
	delete(d.live, addr)
	return gpubackend.Success
}

func (d *poolDriver) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	d.event++
	return d.event, gpubackend.Success
}

func (d *poolDriver) EventRecordWithFlags(gpubackend.Event, gpubackend.Stream, uint64) gpubackend.Result {
	return gpubackend.Success
}
func (d *poolDriver) EventQuery(gpubackend.Event) gpubackend.Result { return d.ready }

func poolWorker(t *testing.T, limit uint64) (*Worker, *poolDriver, *pool) {
	t.Helper()
	d := &poolDriver{live: map[uint64]uint64{}, limit: limit}
	w := &Worker{driver: d}
	w.assemble()
	w.contexts.Set(w.objects.Add(object.Context, 1, 0), true)
	p, result := w.findPool(w.defaultPool(0))
	if again := w.defaultPool(0); result != gpubackend.Success || again != w.defaultPool(0) {
		t.Fatal("no default pool")
	}
	return w, d, p
}

// free frees a block in a stream.
func (w *Worker) free(t *testing.T, b *block, stream uint64) {
	t.Helper()
	f, result := w.fences.Mark(gpubackend.Stream(stream))
	if result != gpubackend.Success {
		t.Fatal(result)
	}
	b.stream, b.fence, b.fenced = stream, f, true
	w.pools.giveBack(b)
}

func take(t *testing.T, w *Worker, p *pool, bytes, stream uint64) *block {
	t.Helper()
	b, result := p.take(w, bytes, stream)
	if result != gpubackend.Success {
		t.Fatalf("%d bytes: %d", bytes, result)
	}
	w.pools.enter(b)
	return b
}

func TestPoolReuse(t *testing.T) {
	w, d, p := poolWorker(t, 1<<30)
	d.ready = gpubackend.NotReady
	a := take(t, w, p, 4096, 7)
	w.free(t, a, 7)
	if b := take(t, w, p, 4096, 8); b.address == a.address {
		t.Error("another stream got memory that the first one may still use")
	}
	b := take(t, w, p, 4096, 7)
	if b.address != a.address {
		t.Error("the stream didn't get its own memory back")
	}
	w.free(t, b, 7)
	d.ready = gpubackend.Success
	if c := take(t, w, p, 4096, 9); c.address != a.address {
		t.Error("idle memory isn't used again")
	}
	if p.attribute[poolUsed] != 2*4096 || p.attribute[poolReserved] != 2*4096 {
		t.Errorf("used %d, reserved %d", p.attribute[poolUsed], p.attribute[poolReserved])
	}
}

func TestPoolThreshold(t *testing.T) {
	w, d, p := poolWorker(t, 1<<30)
	p.attribute[poolThreshold] = 8192
	var blocks []*block
	for range 4 {
		blocks = append(blocks, take(t, w, p, 4096, 7))
	}
	for _, b := range blocks {
		w.free(t, b, 7)
	}
	d.ready = gpubackend.NotReady
	w.pools.settle(w)
	if len(d.live) != 4 {
		t.Errorf("%d blocks: memory in use was given back", len(d.live))
	}
	d.ready = gpubackend.Success
	w.pools.settle(w)
	if len(d.live) != 2 || p.attribute[poolReserved] != 8192 {
		t.Errorf("%d blocks, %d bytes reserved", len(d.live), p.attribute[poolReserved])
	}
	if !w.pools.empty(w) || len(d.live) != 0 {
		t.Errorf("%d blocks after emptying", len(d.live))
	}
	if p.attribute[poolReservedHigh] != 4*4096 || p.attribute[poolUsed] != 0 {
		t.Errorf("high %d, used %d", p.attribute[poolReservedHigh], p.attribute[poolUsed])
	}
}

func TestPoolForgetsContext(t *testing.T) {
	w, _, p := poolWorker(t, 1<<30)
	a := take(t, w, p, 512, 7)
	take(t, w, p, 512, 7)
	w.free(t, a, 7)
	w.pools.forget(w.contexts.Current())
	if len(w.pools.live) != 0 || len(p.free) != 0 || p.attribute[poolReserved] != 0 || p.attribute[poolUsed] != 0 {
		t.Errorf("left: %d live, %d free, %v", len(w.pools.live), len(p.free), p.attribute)
	}
}
