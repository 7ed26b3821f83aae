// SPDX-License-Identifier: Apache-2.0

package virtqueue_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/inflight"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// crashing is a queue with a record, whose device is cut off again and again.
type crashing struct {
	*rig
	t      *testing.T
	record *inflight.Region
	cfg    virtqueue.Config

	waiting []uint16          // heads in the avail ring, not taken
	flying  []uint16          // taken and not returned, in the order in which they were taken
	data    map[uint16]uint64 // head: address of its buffer
}

func newCrashing(t *testing.T, size uint16) *crashing {
	t.Helper()
	shape := inflight.Shape{Queues: 1, Size: size}
	fd, err := inflight.Create(shape)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	record, err := inflight.Open(fd, 0, shape.Bytes(), shape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() })
	r := newRig(t, size, func(c *virtqueue.Config) { c.Record = record.Queue(0) })
	return &crashing{rig: r, t: t, record: record, cfg: config(r.drv), data: map[uint16]uint64{}}
}

// crash takes the queue away as a crash does, with no word to the next one but the record.
func (c *crashing) crash() {
	c.t.Helper()
	c.q.Close() // gives up the hold on the memory, and writes nothing
	c.cfg.Record, c.cfg.Base = c.record.Queue(0), 0xdead
	c.q = newQueue(c.t, c.Guest, c.cfg)
	if got := c.q.AppendInFlight(nil); len(got) != len(c.flying) || c.q.Flying() != len(c.flying) {
		c.t.Fatalf("in flight: %v, want %v", got, c.flying)
	}
	more := len(c.flying)+len(c.waiting) > 0
	if got, err := c.q.EnableKick(); got != more || err != nil {
		c.t.Fatalf("EnableKick = %v, %v with %v and %v", got, err, c.flying, c.waiting)
	}
	flying := c.flying
	c.flying, c.waiting = nil, append(slices.Clone(flying), c.waiting...)
	for range flying {
		c.pop()
	}
}

func (c *crashing) offer() {
	c.t.Helper()
	addr := c.Alloc(8, 8)
	head, err := c.drv.Add(vt.Desc{Addr: addr, Len: 8, Flags: vt.Write})
	if err != nil {
		return // the ring is full
	}
	c.data[head] = addr
	c.waiting = append(c.waiting, head)
}

// pop takes the next chain, which must be the first that waits, whole.
func (c *crashing) pop() {
	c.t.Helper()
	chain, ok, err := c.q.Pop()
	if err != nil || ok != (len(c.waiting) > 0) {
		c.t.Fatalf("Pop = %v, %v, with %v", ok, err, c.waiting)
	}
	if !ok {
		return
	}
	want := c.waiting[0]
	c.waiting = c.waiting[1:]
	if buffers := chain.Writable(); chain.Head() != want || len(buffers) != 1 ||
		buffers[0].Addr != c.data[want] || chain.WriteLen() != 8 {
		c.t.Fatalf("chain %d, %v, want %d", chain.Head(), buffers, want)
	}
	c.flying = append(c.flying, want)
}

func (c *crashing) returned(i int) uint16 {
	head := c.flying[i]
	c.flying = slices.Delete(c.flying, i, i+1)
	return head
}

func (c *crashing) reap(head uint16) {
	c.t.Helper()
	if id, _, ok := c.drv.Reap(); !ok || id != uint32(head) {
		c.t.Fatalf("Reap = %d, %v, want %d", id, ok, head)
	}
}

// TestCutOffAnywhere: whenever a device is cut off, the next one takes what was in flight again, in
// its order, and nothing that the driver has back.
func TestCutOffAnywhere(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	c := newCrashing(t, 8)
	again := 0
	for range 20000 {
		switch op := rng.IntN(12); {
		case op < 4:
			c.offer()
		case op < 7:
			c.pop()
		case op < 10 && len(c.flying) > 0:
			head := c.returned(rng.IntN(len(c.flying)))
			if err := c.q.Push(head, 8); err != nil {
				t.Fatal(err)
			}
			c.reap(head)
		case op == 10:
			again += len(c.flying)
			c.crash()
		case op == 11 && len(c.flying) > 0:
			c.midPush(rng)
		}
	}
	if again == 0 {
		t.Error("nothing was in flight at any crash")
	}
}

// midPush cuts the device off in the middle of a Push: before the driver sees it, or before the
// record has it.
func (c *crashing) midPush(rng *rand.Rand) {
	c.t.Helper()
	i := rng.IntN(len(c.flying))
	record := c.record.Queue(0)
	if _, _, err := record.Recover(c.q.NextUsed()); err != nil {
		c.t.Fatal(err)
	}
	record.Returning(c.flying[i])
	if rng.IntN(2) == 0 {
		head := c.returned(i)
		cfg := c.cfg
		cfg.Record, cfg.InFlight = nil, []uint16{head}
		blind, err := virtqueue.New(c.Mem, cfg)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := blind.Push(head, 8); err != nil {
			c.t.Fatal(err)
		}
		blind.Close()
		c.reap(head)
	}
	c.crash()
}

// TestQueueThatKnowsWhatFlies: chains that the device says it still has aren't given again.
func TestQueueThatKnowsWhatFlies(t *testing.T) {
	t.Parallel()
	c := newCrashing(t, 4)
	for range 3 {
		c.offer()
		c.pop()
	}
	known, others := c.flying[1], []uint16{c.flying[0], c.flying[2]}
	c.q.Close()
	c.cfg.Record, c.cfg.InFlight = c.record.Queue(0), []uint16{known}
	c.q = newQueue(t, c.Guest, c.cfg)
	if err := c.q.Push(others[0], 0); !errors.Is(err, virtqueue.ErrNotInFlight) {
		t.Errorf("push of a chain that wasn't given again: %v", err)
	}
	for _, want := range others {
		if head := mustPop(t, c.q).Head(); head != want {
			t.Errorf("chain %d, want %d", head, want)
		}
	}
	if err := c.q.Push(known, 8); err != nil {
		t.Error(err)
	}
	c.reap(known)
	if _, ok, err := c.q.Pop(); ok || err != nil {
		t.Errorf("Pop = %v, %v", ok, err)
	}
}

// TestRecordOfAnotherQueue: one that names heads that this queue can't have, or contradicts it.
func TestRecordOfAnotherQueue(t *testing.T) {
	t.Parallel()
	c := newCrashing(t, 8)
	for range 8 {
		c.offer()
		c.pop()
	}
	c.q.Close()
	small := vt.NewDriver(c.Guest, 4, true)
	cfg := config(small)
	cfg.Record = c.record.Queue(0)
	if _, err := virtqueue.New(c.Mem, cfg); !errors.Is(err, virtqueue.ErrConfig) {
		t.Errorf("heads beyond the queue: %v", err)
	}
	other := vt.NewDriver(c.Guest, 8, true)
	other.StartAt(100)
	cfg = config(other)
	cfg.Record = c.record.Queue(0)
	if _, err := virtqueue.New(c.Mem, cfg); !errors.Is(err, virtqueue.ErrConfig) {
		t.Errorf("a used index of another queue: %v", err)
	}
}
