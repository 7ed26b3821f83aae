// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// Config describes a queue whose rings the driver has set up.
type Config struct {
	Size uint16 // number of descriptors, a power of two

	// Guest-physical addresses of the descriptor table, the avail ring and the used ring.
	Desc, Avail, Used uint64

	Base     uint16 // avail index of the first chain to take
	EventIdx bool   // VIRTIO_F_EVENT_IDX was negotiated
	Indirect bool   // VIRTIO_F_INDIRECT_DESC was negotiated

	// MaxChain bounds the descriptors of one chain, those of an indirect table included.
	// 0 means Size.
	MaxChain int

	// InFlight names heads that an earlier Queue on the same rings took and hasn't returned.
	// They can be pushed, with a length that isn't checked, as their buffers aren't known here.
	InFlight []uint16

	// Record, if it isn't nil, is where the queue keeps what is in flight. Heads that an earlier
	// Queue took by it, except those in InFlight, are what Pop returns first, in their order. Base
	// then follows from it.
	Record *inflight.Queue
}

// Queue is the device side of one split virtqueue.
type Queue struct {
	mem *guestmem.Memory
	cfg Config

	// The rings, in guest memory.
	desc, avail, used []byte

	mask         uint16
	availAligned bool // the avail ring is aligned to 4, as Linux does it

	nextAvail uint16 // avail index of the next chain to take
	availSeen uint16 // avail index of the driver when last looked at
	nextUsed  uint16 // used index of the next chain to return

	signalled uint16 // used index when NeedsNotify last decided
	usedFlags uint16 // flags word of the used ring, as last written
	kicksOff  bool   // DisableKick is in force
	eventAt   uint16 // nextAvail when avail_event was last parked

	inFlight []*Chain // by head; nil is not in flight
	flying   int      // how many are in flight
	again    []uint16 // heads that an earlier Queue took, which Pop is still to give again
	free     []*Chain // chains to reuse

	table  []byte // copy of an indirect table that crosses regions
	fence  uint32 // operand of full barriers
	broken error
	closed bool
}

// New makes a queue over rings in mem, and holds mem until Close.
func New(mem *guestmem.Memory, cfg Config) (*Queue, error) {
	if cfg.MaxChain == 0 {
		cfg.MaxChain = int(cfg.Size)
	}
	if cfg.Size == 0 || cfg.Size > MaxSize || cfg.Size&(cfg.Size-1) != 0 {
		return nil, fmt.Errorf("%w: size %d", ErrConfig, cfg.Size)
	}
	if cfg.MaxChain < 1 || cfg.MaxChain > 1<<16 {
		return nil, fmt.Errorf("%w: chains of %d descriptors", ErrConfig, cfg.MaxChain)
	}
	cfg.InFlight = slices.Clone(cfg.InFlight)
	q := &Queue{
		mem:       mem,
		cfg:       cfg,
		mask:      cfg.Size - 1,
		nextAvail: cfg.Base,
		availSeen: cfg.Base,
		inFlight:  make([]*Chain, cfg.Size),
	}
	if err := q.mapRings(); err != nil {
		return nil, err
	}
	if err := q.adopt(cfg.InFlight); err != nil {
		return nil, err
	}
	if err := q.resume(); err != nil {
		return nil, err
	}
	if err := mem.Hold(); err != nil {
		return nil, fmt.Errorf("hold guest memory: %w", err)
	}
	return q, nil
}

// mapRings finds the rings in guest memory and reads where the used ring stands.
func (q *Queue) mapRings() error {
	for _, r := range []struct {
		name  string
		bytes *[]byte
		gpa   uint64
		len   uint64
		align uint64
	}{
		{"descriptor table", &q.desc, q.cfg.Desc, DescBytes(q.cfg.Size), 16},
		{"avail ring", &q.avail, q.cfg.Avail, AvailBytes(q.cfg.Size, q.cfg.EventIdx), 2},
		{"used ring", &q.used, q.cfg.Used, UsedBytes(q.cfg.Size, q.cfg.EventIdx), 4},
	} {
		b, err := q.mem.Slice(r.gpa, r.len)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrConfig, r.name, err)
		}
		// The host address can be aligned differently if a region begins inside a page.
		if r.gpa%r.align != 0 || uint64(guestmem.Addr(b))%min(r.align, 4) != 0 {
			return fmt.Errorf("%w: %s at %#x is misaligned", ErrConfig, r.name, r.gpa)
		}
		*r.bytes = b
	}
	q.availAligned = guestmem.Addr(q.avail)%4 == 0
	err := q.mem.Guard(func() error {
		q.nextUsed = uint16(load32(q.used, 0) >> 16)
		return nil
	})
	q.signalled = q.nextUsed
	if err != nil {
		return fmt.Errorf("read used index: %w", err)
	}
	return nil
}

// adopt marks heads as in flight that an earlier Queue left so.
func (q *Queue) adopt(heads []uint16) error {
	for _, head := range heads {
		if head >= q.cfg.Size || q.inFlight[head] != nil {
			return fmt.Errorf("%w: head %d in flight", ErrConfig, head)
		}
		c := q.take(head)
		c.adopted = true
	}
	return nil
}

// resume goes on from the record. Each head that was taken is in flight or was returned, so these
// two tell where in the avail ring the earlier Queue stopped, even if it had no time to say so.
func (q *Queue) resume() error {
	record := q.cfg.Record
	if record == nil {
		return nil
	}
	heads, fresh, err := record.Recover(q.nextUsed)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for _, head := range heads {
		if head >= q.cfg.Size {
			return fmt.Errorf("%w: head %d in flight", ErrConfig, head)
		}
		if q.inFlight[head] == nil {
			q.again = append(q.again, head)
		}
	}
	for _, head := range q.cfg.InFlight {
		if !slices.Contains(heads, head) {
			record.Take(head)
		}
	}
	if !fresh {
		q.nextAvail = q.nextUsed + uint16(q.Flying())
		q.availSeen = q.nextAvail
	}
	return nil
}

// Close gives up the rings and the hold on the memory. It writes nothing to the guest.
func (q *Queue) Close() {
	if q.closed {
		return
	}
	q.closed = true
	q.fail("use", ErrClosed)
	q.desc, q.avail, q.used, q.table = nil, nil, nil, nil
	q.mem.Release()
}

// Base returns the avail index of the next chain that Pop would take: the Config.Base with which
// another Queue goes on.
func (q *Queue) Base() uint16 { return q.nextAvail }

// NextUsed returns the used index at which Push returns the next chain.
func (q *Queue) NextUsed() uint16 { return q.nextUsed }

// AppendInFlight appends the heads that were taken and not returned, in rising order.
func (q *Queue) AppendInFlight(dst []uint16) []uint16 {
	from := len(dst)
	for head, c := range q.inFlight {
		if c != nil {
			dst = append(dst, uint16(head))
		}
	}
	if len(q.again) > 0 {
		dst = append(dst, q.again...)
		slices.Sort(dst[from:])
	}
	return dst
}

// Flying returns how many chains are in flight.
func (q *Queue) Flying() int { return q.flying + len(q.again) }

// Err returns why the queue is broken, or nil.
func (q *Queue) Err() error { return q.broken }

// fail breaks the queue. The first reason stays.
func (q *Queue) fail(op string, reason error) error {
	if q.broken == nil {
		q.broken = &RingError{Op: op, Reason: reason}
	}
	return q.broken
}

// dirty marks bytes of the used ring, after they were written. In the log it has the ring's own
// address, as there is no IOMMU.
func (q *Queue) dirty(off, n int) { q.mem.Dirty().Mark(q.cfg.Used+uint64(off), uint64(n)) }

// barrier orders all accesses before it against all accesses after it, loads after stores too.
func (q *Queue) barrier() { atomic.AddUint32(&q.fence, 1) }

// loadAvail reads flags and index of the avail ring.
func (q *Queue) loadAvail() (flags, idx uint16) {
	if q.availAligned {
		v := load32(q.avail, 0)
		return uint16(v), uint16(v >> 16)
	}
	idx = load16(q.avail, 2)
	flags = load16(q.avail, 0)
	q.barrier()
	return flags, idx
}

// Blank reports whether the driver's side of the rings is all zero: no descriptor and no avail
// entry was ever written. A queue that was kicked and is blank still, twice or more, means that
// the guest's memory isn't the memory that was mapped, because it isn't shared.
func (q *Queue) Blank() (blank bool, err error) {
	if q.broken != nil {
		return false, q.broken
	}
	defer q.mem.Recover(debug.SetPanicOnFault(true), &err)
	return allZero(q.desc) && allZero(q.avail), nil
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
