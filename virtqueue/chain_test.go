// SPDX-License-Identifier: Apache-2.0

package virtqueue_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const (
	buf   = 0x20000 // a buffer of the rig's guest
	table = 0x30000 // room for an indirect table
)

// Each row is a descriptor table, and perhaps an indirect table, of which head 0 is offered.
func TestMalformedChains(t *testing.T) {
	t.Parallel()
	wr, ind, nxt := uint16(vt.Write), uint16(vt.Indirect), uint16(vt.Next)
	long := make([]vt.Desc, 9)
	for i := range long {
		long[i] = vt.Desc{Addr: buf, Len: 1, Flags: nxt, Next: uint16(i + 1)}
	}
	long[8].Flags = 0
	for _, tt := range []struct {
		name     string
		direct   []vt.Desc
		indirect []vt.Desc
		want     error
	}{
		{"self loop", []vt.Desc{{Addr: buf, Len: 1, Flags: nxt}}, nil, virtqueue.ErrTooLong},
		{"two in a loop", []vt.Desc{{Addr: buf, Len: 1, Flags: nxt, Next: 1}, {Flags: nxt}}, nil,
			virtqueue.ErrTooLong},
		{"next out of range", []vt.Desc{{Addr: buf, Len: 1, Flags: nxt, Next: 8}}, nil,
			virtqueue.ErrNext},
		{"next at the far end", []vt.Desc{{Addr: buf, Len: 1, Flags: nxt, Next: 65535}}, nil,
			virtqueue.ErrNext},
		{"outside memory", []vt.Desc{{Addr: 0x100, Len: 1}}, nil, guestmem.ErrRange},
		{"ends outside memory", []vt.Desc{{Addr: 0x10000 + mib - 1, Len: 2}}, nil,
			guestmem.ErrRange},
		{"wraps", []vt.Desc{{Addr: math.MaxUint64, Len: 2}}, nil, guestmem.ErrRange},
		{"length of all ones", []vt.Desc{{Addr: buf, Len: math.MaxUint32}}, nil, guestmem.ErrRange},
		{"readable after writable",
			[]vt.Desc{{Addr: buf, Len: 1, Flags: wr | nxt, Next: 1}, {Addr: buf, Len: 1}}, nil,
			virtqueue.ErrOrder},
		{"empty readable after empty writable", []vt.Desc{{Flags: wr | nxt, Next: 1}, {}}, nil,
			virtqueue.ErrOrder},
		{"indirect of length 0", []vt.Desc{{Addr: table, Flags: ind}}, nil,
			virtqueue.ErrIndirectLen},
		{"indirect of length 24", []vt.Desc{{Addr: table, Len: 24, Flags: ind}}, nil,
			virtqueue.ErrIndirectLen},
		{"indirect of 9 entries", []vt.Desc{{Addr: table, Len: 9 * 16, Flags: ind}}, nil,
			virtqueue.ErrIndirectLen},
		{"indirect of all ones", []vt.Desc{{Addr: table, Len: math.MaxUint32 &^ 15, Flags: ind}},
			nil, virtqueue.ErrIndirectLen},
		{"indirect and next", []vt.Desc{{Addr: table, Len: 16, Flags: ind | nxt, Next: 1}}, nil,
			virtqueue.ErrIndirect},
		{"indirect outside memory", []vt.Desc{{Addr: 0, Len: 16, Flags: ind}}, nil,
			guestmem.ErrRange},
		{"indirect ends outside", []vt.Desc{{Addr: 0x10000 + mib - 16, Len: 32, Flags: ind}}, nil,
			guestmem.ErrRange},
		{"nested", []vt.Desc{{Addr: table, Len: 16, Flags: ind}},
			[]vt.Desc{{Addr: table, Len: 16, Flags: ind}}, virtqueue.ErrNested},
		{"loop in the table", []vt.Desc{{Addr: table, Len: 16, Flags: ind}},
			[]vt.Desc{{Addr: buf, Len: 1, Flags: nxt}}, virtqueue.ErrTooLong},
		{"next outside the table", []vt.Desc{{Addr: table, Len: 16, Flags: ind}},
			[]vt.Desc{{Addr: buf, Len: 1, Flags: nxt, Next: 1}}, virtqueue.ErrNext},
		{"direct and indirect too long",
			[]vt.Desc{{Flags: nxt, Next: 1}, {Addr: table, Len: 8 * 16, Flags: ind}}, long[:8],
			virtqueue.ErrTooLong},
		{"direct and indirect loop",
			[]vt.Desc{{Flags: nxt, Next: 1}, {Addr: table, Len: 8 * 16, Flags: ind}},
			append(long[:7:7], vt.Desc{Flags: nxt, Next: 0}), virtqueue.ErrTooLong},
	} {
		r := newRig(t, 8, nil)
		for i, d := range tt.direct {
			r.drv.SetDesc(uint16(i), d)
		}
		for i, d := range tt.indirect {
			r.Write(table+16*uint64(i), d.Bytes())
		}
		r.drv.Offer(0)
		start := time.Now()
		_, ok, err := r.q.Pop()
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: Pop took %v", tt.name, took)
		}
		var ce *virtqueue.ChainError
		if ok || !errors.As(err, &ce) || !errors.Is(err, tt.want) || ce.Head != 0 {
			t.Errorf("%s: Pop = %v, %v, want %v", tt.name, ok, err, tt.want)
			continue
		}
		// The chain can be returned, and the queue works on.
		if err := r.q.Push(0, 1); !errors.Is(err, virtqueue.ErrWritten) {
			t.Errorf("%s: Push of one byte = %v", tt.name, err)
		}
		if err := r.q.Push(0, 0); err != nil {
			t.Errorf("%s: Push = %v", tt.name, err)
		}
		r.drv.Reap()
		r.echo(t)
	}
}

func TestIndirectNotNegotiated(t *testing.T) {
	t.Parallel()
	r := newRig(t, 8, func(c *virtqueue.Config) { c.Indirect = false })
	r.drv.SetDesc(0, vt.Desc{Addr: table, Len: 16, Flags: vt.Indirect})
	r.drv.Offer(0)
	if _, _, err := r.q.Pop(); !errors.Is(err, virtqueue.ErrNoIndirect) {
		t.Errorf("Pop = %v, want ErrNoIndirect", err)
	}
}

func TestGoodChains(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		direct         []vt.Desc
		indirect       []vt.Desc
		read, write, n int
	}{
		{"empty", []vt.Desc{{}}, nil, 0, 0, 0},
		{"empty at a wild address", []vt.Desc{{Addr: math.MaxUint64}}, nil, 0, 0, 0},
		{"write only", []vt.Desc{{Addr: buf, Len: 3, Flags: vt.Write}}, nil, 0, 3, 1},
		{"unknown flags", []vt.Desc{{Addr: buf, Len: 3, Flags: 0xfff8}}, nil, 3, 0, 1},
		{"last byte of memory", []vt.Desc{{Addr: 0x10000 + mib - 1, Len: 1}}, nil, 1, 0, 1},
		{"indirect", []vt.Desc{{Addr: table, Len: 32, Flags: vt.Indirect}},
			[]vt.Desc{{Addr: buf, Len: 3, Flags: vt.Next, Next: 1},
				{Addr: buf, Len: 4, Flags: vt.Write}}, 3, 4, 2},
		{"indirect with the write flag",
			[]vt.Desc{{Addr: table, Len: 16, Flags: vt.Indirect | vt.Write}},
			[]vt.Desc{{Addr: buf, Len: 3}}, 3, 0, 1},
		{"indirect at the end",
			[]vt.Desc{{Addr: buf, Len: 1, Flags: vt.Next, Next: 1},
				{Addr: table, Len: 16, Flags: vt.Indirect}},
			[]vt.Desc{{Addr: buf, Len: 3}}, 4, 0, 2},
		{"buffer over the rings", []vt.Desc{{Addr: 0x10000, Len: 512, Flags: vt.Write}}, nil, 0,
			512, 1},
	} {
		r := newRig(t, 8, nil)
		for i, d := range tt.direct {
			r.drv.SetDesc(uint16(i), d)
		}
		for i, d := range tt.indirect {
			r.Write(table+16*uint64(i), d.Bytes())
		}
		r.drv.Offer(0)
		c, ok, err := r.q.Pop()
		if err != nil || !ok {
			t.Errorf("%s: Pop = %v, %v", tt.name, ok, err)
			continue
		}
		n := len(c.Readable()) + len(c.Writable())
		if c.ReadLen() != uint32(tt.read) || c.WriteLen() != uint32(tt.write) || n != tt.n {
			t.Errorf("%s: %d+%d bytes in %d, want %d+%d in %d",
				tt.name, c.ReadLen(), c.WriteLen(), n, tt.read, tt.write, tt.n)
		}
	}
}

// A device that writes over its own rings, because a buffer lies on them, harms the guest only.
func TestBufferOverRings(t *testing.T) {
	t.Parallel()
	r := newRig(t, 8, nil)
	r.drv.SetDesc(0, vt.Desc{Addr: r.drv.Desc, Len: 600, Flags: vt.Write})
	r.drv.Offer(0)
	c := mustPop(t, r.q)
	junk := make([]byte, 600)
	for i := range junk {
		junk[i] = 0xff
	}
	if _, err := c.WriteAt(junk, 0); err != nil {
		t.Fatal(err)
	}
	if err := r.q.Push(0, 600); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		_, _, err := r.q.Pop()
		var re *virtqueue.RingError
		if errors.As(err, &re) {
			return
		}
	}
	t.Error("the queue didn't notice that its rings are junk")
}

// The indirect table may cross from one region to another.
func TestIndirectTableOverRegions(t *testing.T) {
	t.Parallel()
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib}, vt.Span{Addr: mib, Size: mib})
	d := vt.NewDriver(g, 8, true)
	r := &rig{g, d, newQueue(t, g, config(d))}
	for _, at := range []uint64{mib - 16, mib - 24, mib - 40} {
		for i := range 3 {
			e := vt.Desc{Addr: 0x8000, Len: uint32(i + 1), Flags: vt.Next, Next: uint16(i + 1)}
			if i == 2 {
				e.Flags = 0
			}
			g.Write(at+16*uint64(i), e.Bytes())
		}
		head, err := d.Add(vt.Desc{Addr: at, Len: 48, Flags: vt.Indirect})
		if err != nil {
			t.Fatal(err)
		}
		if c := mustPop(t, r.q); c.ReadLen() != 6 {
			t.Errorf("table at %#x: %d bytes, want 6", at, c.ReadLen())
		}
		if err := r.q.Push(head, 0); err != nil {
			t.Fatal(err)
		}
		d.Reap()
	}
}

// A total of 4 GiB can't be told in the used ring.
func TestChainOfFourGiB(t *testing.T) {
	t.Parallel()
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: 4 << 30})
	d := vt.NewDriver(g, 8, true)
	q := newQueue(t, g, config(d))
	if _, err := d.Add(vt.Desc{Len: math.MaxUint32}, vt.Desc{Len: 1}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Pop(); !errors.Is(err, virtqueue.ErrTooLarge) {
		t.Errorf("Pop = %v, want ErrTooLarge", err)
	}
	if _, err := d.Add(vt.Desc{Len: math.MaxUint32, Flags: vt.Write}); err != nil {
		t.Fatal(err)
	}
	if c := mustPop(t, q); c.WriteLen() != math.MaxUint32 {
		t.Errorf("WriteLen = %d", c.WriteLen())
	}
}

func TestBrokenRings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(*vt.Driver)
		want error
	}{
		{"head out of range", func(d *vt.Driver) { d.Offer(8) }, virtqueue.ErrHead},
		{"head of all ones", func(d *vt.Driver) { d.Offer(65535) }, virtqueue.ErrHead},
		{"head offered twice", func(d *vt.Driver) { d.Offer(3); d.Offer(3) },
			virtqueue.ErrInFlight},
		{"index jumps", func(d *vt.Driver) { d.SetAvailIdx(9) }, virtqueue.ErrAvailIndex},
		{"index goes back", func(d *vt.Driver) { d.SetAvailIdx(65535) }, virtqueue.ErrAvailIndex},
	} {
		r := newRig(t, 8, nil)
		tt.do(r.drv)
		var err error
		for range 3 {
			if _, _, err = r.q.Pop(); err != nil {
				break
			}
		}
		var re *virtqueue.RingError
		if !errors.As(err, &re) || !errors.Is(err, tt.want) {
			t.Errorf("%s: Pop = %v, want %v", tt.name, err, tt.want)
			continue
		}
		if _, _, again := r.q.Pop(); again != err || r.q.Err() != err {
			t.Errorf("%s: the queue isn't broken: %v", tt.name, again)
		}
		if r.q.NeedsNotify() {
			t.Errorf("%s: a broken queue wants a notification", tt.name)
		}
	}
}

func TestErrorsNameTheirParts(t *testing.T) {
	t.Parallel()
	ce := &virtqueue.ChainError{Head: 3, Desc: 7, Reason: virtqueue.ErrNext}
	if got, want := ce.Error(),
		"chain 3: descriptor 7: next descriptor is outside the table"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	re := &virtqueue.RingError{Op: "pop", Reason: virtqueue.ErrHead}
	if got, want := re.Error(), "pop: head is outside the descriptor table"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
