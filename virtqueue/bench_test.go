// SPDX-License-Identifier: Apache-2.0

package virtqueue_test

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/virtqueue"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// steady prepares a queue on which the same chain can be offered for ever without help of the
// driver: all avail entries name head 0, and only the index moves.
func steady(tb testing.TB) (*rig, func()) {
	r := newRig(tb, 256, nil)
	r.drv.SetDesc(0, vt.Desc{Addr: buf, Len: 64, Flags: vt.Next, Next: 1})
	r.drv.SetDesc(1, vt.Desc{Addr: buf + 64, Len: 64, Flags: vt.Write})
	avail, err := r.Mem.Slice(r.drv.Avail, 4)
	if err != nil {
		tb.Fatal(err)
	}
	idx := uint16(0)
	return r, func() {
		idx++
		binary.LittleEndian.PutUint16(avail[2:], idx)
	}
}

// step takes a chain and returns it.
func step(tb testing.TB, q *virtqueue.Queue, p []byte) {
	c, ok, err := q.Pop()
	if !ok || err != nil {
		tb.Fatalf("Pop = %v, %v", ok, err)
	}
	_, _ = c.ReadAt(p, 0)
	_, _ = c.WriteAt(p, 0)
	if err := q.Push(c.Head(), uint32(len(p))); err != nil {
		tb.Fatal(err)
	}
	q.NeedsNotify()
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	r, offer := steady(t)
	p := make([]byte, 64)
	offer()
	step(t, r.q, p)
	if n := testing.AllocsPerRun(1000, func() {
		offer()
		step(t, r.q, p)
		_ = r.q.DisableKick()
		_, _ = r.q.EnableKick()
	}); n != 0 {
		t.Errorf("%v allocations for a request, want 0", n)
	}
}

func BenchmarkPopPush(b *testing.B) {
	r, offer := steady(b)
	b.ReportAllocs()
	for b.Loop() {
		offer()
		c, ok, err := r.q.Pop()
		if !ok || err != nil {
			b.Fatal(err)
		}
		if err := r.q.Push(c.Head(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	r, offer := steady(b)
	p := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		offer()
		step(b, r.q, p)
	}
}

func BenchmarkPopEmpty(b *testing.B) {
	r, _ := steady(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := r.q.Pop(); ok || err != nil {
			b.Fatal(err)
		}
	}
}
