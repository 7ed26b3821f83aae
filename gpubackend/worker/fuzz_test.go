// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/gpubackend/worker/waiting"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// withQueue gives a rig guest memory and a queue.
func (r *rig) withQueue(t testing.TB) *virtqueuetest.Driver {
	t.Helper()
	g := virtqueuetest.NewGuest(t, virtqueuetest.Span{Addr: 0, Size: 4 << 20})
	g.Alloc(4096, 4096)
	d := virtqueuetest.NewDriver(g, 16, false)
	r.startQueue(t, g, &handover.Queue{Size: 16, Desc: d.Desc, Avail: d.Avail, Used: d.Used})
	return d
}

// startQueue has a rig serve a queue in a guest's memory.
func (r *rig) startQueue(t testing.TB, g *virtqueuetest.Guest, where *handover.Queue) {
	t.Helper()
	if err := r.queue.Start(g.Mem, where); err != nil {
		t.Fatal(err)
	}
	r.guest, r.where = g, *where
	t.Cleanup(r.queue.Close)
}

// FuzzCommands executes commands made of anything. None may panic, and all are consumed.
func FuzzCommands(f *testing.F) {
	f.Add([]byte{0x2a, 1, 1, 3, 0, 1, 2})
	table := &newRig(f).table
	for op := range table {
		if table[op].Run != nil {
			f.Add([]byte{byte(op), byte(op >> 8), 1, byte(table[op].Words), 3, 4, 5, 6, 7, 8, 9, 10,
				11, 12})
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t)
		r.withQueue(t)
		values := []uint64{
			0, 1, 2, 8, 64, 4096, r.context, r.function, wire.BufferBulk<<56 | wire.Bulk,
			wire.BufferInline<<56 | wire.CommandSize,
			wire.BufferMap<<56 | 1<<32, 1 << 31, 1<<32 - 1, 1 << 63, ^uint64(0),
			0x5043<<48 | 1<<24 | 3, memory.ReserveBase, 2 << 20,
		}
		for n := 0; len(data) >= 4 && n < 200; n++ {
			op := gpubackend.Op(binary.LittleEndian.Uint16(data)) % 1100
			reply, count := data[2]&1 != 0, min(int(data[3])%24, len(data)-4)
			words := make([]uint64, count)
			for i := range words {
				words[i] = values[int(data[4+i])%len(values)] + uint64(data[4+i])>>6
			}
			data = data[4+count:]
			r.send(op, reply, uint32(n), nil, words...)
			for range 4 {
				if _, err := r.runCommands(); err != nil {
					t.Fatalf("%s: %v", op.Name(), err)
				}
				r.pollWaiters()
			}
			if r.arena.Pending() {
				t.Fatalf("%s was not consumed", op.Name())
			}
		}
	})
}

// TestCallsThatWaitAreBounded: however often a guest asks, only so many calls wait. The next ones
// stay in the ring.
func TestCallsThatWaitAreBounded(t *testing.T) {
	r := newRig(t)
	r.driver.ready = gpubackend.NotReady
	for range 3 * waiting.Most {
		r.send(gpubackend.OpCtxSynchronize, true, 1, nil)
		if _, err := r.runCommands(); err != nil {
			t.Fatal(err)
		}
	}
	if r.waiting.Len() > waiting.Most || !r.arena.Pending() {
		t.Fatalf("%d calls wait", r.waiting.Len())
	}
	r.driver.ready = gpubackend.Success
	for range waiting.Most {
		r.pollWaiters()
		if _, err := r.runCommands(); err != nil {
			t.Fatal(err)
		}
	}
	if r.waiting.Len() > 0 || r.arena.Pending() {
		t.Fatal("they wait still")
	}
}

// TestInlineBoxes: rows of a box lie in its buffer, whatever that is and however few bytes a row
// has.
func TestInlineBoxes(t *testing.T) {
	r := newRig(t)
	if got := r.call(t, gpubackend.OpCopyBox, 0, 64, 64, 0, 1<<20, 64, 64, 8, 2, 1, command.BoxHtod,
		0, 0); got != gpubackend.InvalidValue {
		t.Fatalf("rows of no buffer: %d", got)
	}
	if got := r.call(t, gpubackend.OpCopyBox, 0, 64, 64, wire.BufferBulk<<56|wire.Bulk, 64, 1<<30,
		1<<34, 0, 9, 1, command.BoxHtod, 0, 0); got != gpubackend.Success {
		t.Fatalf("rows of no bytes: %d", got)
	}
	if got := r.call(t, gpubackend.OpCopyHtoD, 0, 0, 64, 64, 0, 0); got != gpubackend.InvalidValue {
		t.Fatalf("bytes of no buffer: %d", got)
	}
}

// TestPoolsAreReused makes and destroys more pools than there can be.
func TestPoolsAreReused(t *testing.T) {
	r := newRig(t)
	for range 3 * pools.MaxPools {
		h := r.want(t, 0, gpubackend.OpMemPoolCreate, 0, 0, 0)
		r.want(t, 0, gpubackend.OpMemPoolDestroy, h)
	}
}
