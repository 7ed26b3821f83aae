// SPDX-License-Identifier: Apache-2.0

package virtqueue_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const mib = 1 << 20

// rig is a guest with one queue.
type rig struct {
	*vt.Guest
	drv *vt.Driver
	q   *virtqueue.Queue
}

// config returns the configuration that fits a driver's rings.
func config(d *vt.Driver) virtqueue.Config {
	return virtqueue.Config{
		Size: d.Size, Desc: d.Desc, Avail: d.Avail, Used: d.Used,
		EventIdx: d.EventIdx, Indirect: true,
	}
}

func newRig(tb testing.TB, size uint16, change func(*virtqueue.Config)) *rig {
	tb.Helper()
	g := vt.NewGuest(tb, vt.Span{Addr: 0x10000, Size: mib})
	cfg := virtqueue.Config{EventIdx: true}
	if change != nil {
		change(&cfg)
	}
	d := vt.NewDriver(g, size, cfg.EventIdx)
	cfg = config(d)
	if change != nil {
		change(&cfg)
	}
	return &rig{g, d, newQueue(tb, g, cfg)}
}

func newQueue(tb testing.TB, g *vt.Guest, cfg virtqueue.Config) *virtqueue.Queue {
	tb.Helper()
	q, err := virtqueue.New(g.Mem, cfg)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	tb.Cleanup(q.Close)
	return q
}

// mustPop takes a chain that must be there.
func mustPop(tb testing.TB, q *virtqueue.Queue) *virtqueue.Chain {
	tb.Helper()
	c, ok, err := q.Pop()
	if err != nil || !ok {
		tb.Fatalf("Pop = %v, %v, want a chain", ok, err)
	}
	return c
}

// echo proves that the queue works: one request goes through it.
func (r *rig) echo(tb testing.TB) {
	tb.Helper()
	in, out := r.Alloc(16, 16), r.Alloc(16, 16)
	r.Write(in, []byte("ping ping ping!!"))
	head, err := r.drv.Add(vt.Desc{Addr: in, Len: 16}, vt.Desc{Addr: out, Len: 16, Flags: vt.Write})
	if err != nil {
		tb.Fatal(err)
	}
	c := mustPop(tb, r.q)
	if c.Head() != head || c.ReadLen() != 16 || c.WriteLen() != 16 {
		tb.Fatalf("chain %d of %d+%d bytes, want %d of 16+16", c.Head(), c.ReadLen(), c.WriteLen(),
			head)
	}
	p := make([]byte, 16)
	if n, err := c.ReadAt(p, 0); n != 16 || err != nil {
		tb.Fatalf("ReadAt = %d, %v", n, err)
	}
	if n, err := c.WriteAt(p, 0); n != 16 || err != nil {
		tb.Fatalf("WriteAt = %d, %v", n, err)
	}
	if err := r.q.Push(head, 16); err != nil {
		tb.Fatal(err)
	}
	id, n, ok := r.drv.Reap()
	if !ok || id != uint32(head) || n != 16 {
		tb.Fatalf("Reap = %d, %d, %v, want %d, 16, true", id, n, ok, head)
	}
	if got := r.Read(out, 16); !bytes.Equal(got, p) {
		tb.Fatalf("response %q, want %q", got, p)
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	for _, eventIdx := range []bool{false, true} {
		r := newRig(t, 4, func(c *virtqueue.Config) { c.EventIdx = eventIdx })
		for range 50 {
			r.echo(t)
		}
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, nil)
	if c, ok, err := r.q.Pop(); c != nil || ok || err != nil {
		t.Fatalf("Pop of an empty queue = %v, %v, %v", c, ok, err)
	}
}

func TestIndicesWrap(t *testing.T) {
	t.Parallel()
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib})
	d := vt.NewDriver(g, 4, true)
	d.StartAt(65530)
	cfg := config(d)
	cfg.Base = 65530
	r := &rig{g, d, newQueue(t, g, cfg)}
	for range 20 {
		r.echo(t)
	}
	if r.q.Base() != 14 {
		t.Errorf("Base = %d after 20 chains from 65530, want 14", r.q.Base())
	}
}

func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 8, nil)
	var heads []uint16
	for range 8 {
		if _, err := r.drv.Add(vt.Desc{Addr: 0x20000, Len: 4, Flags: vt.Write}); err != nil {
			t.Fatal(err)
		}
		heads = append(heads, mustPop(t, r.q).Head())
	}
	if r.q.Flying() != 8 || len(r.q.AppendInFlight(nil)) != 8 {
		t.Fatalf("%d in flight, want 8", r.q.Flying())
	}
	for _, i := range []int{3, 0, 7, 1, 2, 6, 5, 4} {
		if err := r.q.Push(heads[i], uint32(i)%4); err != nil {
			t.Fatal(err)
		}
		if id, n, ok := r.drv.Reap(); !ok || id != uint32(heads[i]) || n != uint32(i)%4 {
			t.Fatalf("Reap = %d, %d, %v, want %d, %d", id, n, ok, heads[i], i%4)
		}
	}
	r.echo(t)
}

func TestPushRejects(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, nil)
	if err := r.q.Push(0, 0); !errors.Is(err, virtqueue.ErrNotInFlight) {
		t.Errorf("Push of an idle head: %v", err)
	}
	if err := r.q.Push(4, 0); !errors.Is(err, virtqueue.ErrNotInFlight) {
		t.Errorf("Push of head 4 of 4: %v", err)
	}
	head, _ := r.drv.Add(vt.Desc{Addr: 0x20000, Len: 4, Flags: vt.Write})
	c := mustPop(t, r.q)
	if err := r.q.Push(head, 5); !errors.Is(err, virtqueue.ErrWritten) {
		t.Errorf("Push of 5 bytes into 4: %v", err)
	}
	if err := r.q.Push(head, 4); err != nil {
		t.Error(err)
	}
	if err := r.q.Push(head, 4); !errors.Is(err, virtqueue.ErrNotInFlight) {
		t.Errorf("second Push: %v", err)
	}
	if _, err := c.ReadAt(make([]byte, 1), 0); !errors.Is(err, virtqueue.ErrNotInFlight) {
		t.Errorf("ReadAt after Push: %v", err)
	}
	r.drv.Reap()
	r.echo(t)
}

func TestNewRejects(t *testing.T) {
	t.Parallel()
	g := vt.NewGuest(t, vt.Span{Addr: 0x1000, Size: mib}, vt.Span{Addr: 0x1000 + mib, Size: mib})
	base := config(vt.NewDriver(g, 8, true))
	for _, tt := range []struct {
		name   string
		change func(*virtqueue.Config)
	}{
		{"size 0", func(c *virtqueue.Config) { c.Size = 0 }},
		{"size 3", func(c *virtqueue.Config) { c.Size = 3 }},
		{"size above the limit", func(c *virtqueue.Config) { c.Size = 32769 }},
		{"negative chain", func(c *virtqueue.Config) { c.MaxChain = -1 }},
		{"chain above the limit", func(c *virtqueue.Config) { c.MaxChain = 1<<16 + 1 }},
		{"desc misaligned", func(c *virtqueue.Config) { c.Desc += 8 }},
		{"avail misaligned", func(c *virtqueue.Config) { c.Avail++ }},
		{"used misaligned", func(c *virtqueue.Config) { c.Used += 2 }},
		{"desc outside", func(c *virtqueue.Config) { c.Desc = 0 }},
		{"desc ends outside", func(c *virtqueue.Config) { c.Desc = 0x1000 + 2*mib - 64 }},
		{"avail ends outside", func(c *virtqueue.Config) { c.Avail = 0x1000 + 2*mib - 20 }},
		{"used ends outside", func(c *virtqueue.Config) { c.Used = 0x1000 + 2*mib - 68 }},
		{"used wraps", func(c *virtqueue.Config) { c.Used = ^uint64(0) - 3 }},
		{"desc over two regions", func(c *virtqueue.Config) { c.Desc = 0x1000 + mib - 64 }},
		{"in flight out of range", func(c *virtqueue.Config) { c.InFlight = []uint16{8} }},
		{"in flight twice", func(c *virtqueue.Config) { c.InFlight = []uint16{1, 1} }},
	} {
		cfg := base
		tt.change(&cfg)
		if _, err := virtqueue.New(g.Mem, cfg); !errors.Is(err, virtqueue.ErrConfig) {
			t.Errorf("%s: New = %v, want ErrConfig", tt.name, err)
		}
	}
}

// The avail ring needs an alignment of 2 only; Linux gives more.
func TestAvailAlignedToTwo(t *testing.T) {
	t.Parallel()
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib})
	d := vt.NewDriver(g, 4, true)
	d.Avail = g.Alloc(64, 16) + 2
	r := &rig{g, d, newQueue(t, g, config(d))}
	for range 10 {
		r.echo(t)
	}
}

func TestResumeWithChainsInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t, 8, nil)
	for range 3 {
		if _, err := r.drv.Add(vt.Desc{Addr: 0x20000, Len: 8, Flags: vt.Write}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := mustPop(t, r.q).Head(), mustPop(t, r.q).Head()
	if err := r.q.Push(second, 8); err != nil {
		t.Fatal(err)
	}
	cfg := config(r.drv)
	cfg.Base, cfg.InFlight = r.q.Base(), r.q.AppendInFlight(nil)
	r.q.Close()

	r.q = newQueue(t, r.Guest, cfg)
	if used := r.q.NextUsed(); used != r.drv.UsedIdx() || used != 1 {
		t.Fatalf("NextUsed = %d, the driver's is %d", used, r.drv.UsedIdx())
	}
	third := mustPop(t, r.q).Head()
	for _, head := range []uint16{third, first} {
		if err := r.q.Push(head, 8); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []uint16{second, third, first} {
		if id, _, ok := r.drv.Reap(); !ok || id != uint32(want) {
			t.Fatalf("Reap = %d, %v, want %d", id, ok, want)
		}
	}
	r.echo(t)
}

func TestCloseEndsTheQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, nil)
	head, _ := r.drv.Add(vt.Desc{Addr: 0x20000, Len: 8})
	mustPop(t, r.q)
	if err := r.Mem.Close(); !errors.Is(err, guestmem.ErrBusy) {
		t.Errorf("Close of held memory: %v, want ErrBusy", err)
	}
	r.q.Close()
	r.q.Close()
	if _, _, err := r.q.Pop(); !errors.Is(err, virtqueue.ErrClosed) {
		t.Errorf("Pop after Close: %v", err)
	}
	if err := r.q.Push(head, 0); !errors.Is(err, virtqueue.ErrClosed) {
		t.Errorf("Push after Close: %v", err)
	}
	if _, err := r.q.EnableKick(); !errors.Is(err, virtqueue.ErrClosed) {
		t.Errorf("EnableKick after Close: %v", err)
	}
	if err := r.q.DisableKick(); !errors.Is(err, virtqueue.ErrClosed) {
		t.Errorf("DisableKick after Close: %v", err)
	}
	if _, err := r.q.Blank(); !errors.Is(err, virtqueue.ErrClosed) || r.q.NeedsNotify() {
		t.Errorf("Blank after Close: %v", err)
	}
	if _, err := virtqueue.New(r.Mem, config(r.drv)); err != nil {
		t.Errorf("New on memory that is open: %v", err)
	} else {
		r.Mem.Release()
	}
}

func TestBlank(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, nil)
	if blank, err := r.q.Blank(); !blank || err != nil {
		t.Errorf("Blank of fresh rings = %v, %v", blank, err)
	}
	r.echo(t)
	if blank, err := r.q.Blank(); blank || err != nil {
		t.Errorf("Blank after a request = %v, %v", blank, err)
	}
}

// A memory file that is cut short breaks the queue and nothing else.
func TestTruncatedMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		op   func(r *rig, c *virtqueue.Chain) error
	}{
		{"pop", func(r *rig, _ *virtqueue.Chain) error { _, _, err := r.q.Pop(); return err }},
		{"push", func(r *rig, c *virtqueue.Chain) error { return r.q.Push(c.Head(), 0) }},
		{"enable", func(r *rig,
			_ *virtqueue.Chain) error {
			_, err := r.q.EnableKick()
			return err
		}},
		{"disable", func(r *rig, _ *virtqueue.Chain) error { return r.q.DisableKick() }},
		{"read", func(_ *rig,
			c *virtqueue.Chain) error {
			_, err := c.ReadAt(make([]byte, 8), 0)
			return err
		}},
		{"write", func(_ *rig,
			c *virtqueue.Chain) error {
			_, err := c.WriteAt(make([]byte, 8), 0)
			return err
		}},
		{"blank", func(r *rig, _ *virtqueue.Chain) error { _, err := r.q.Blank(); return err }},
		{"new", func(r *rig,
			_ *virtqueue.Chain) error {
			_, err := virtqueue.New(r.Mem, config(r.drv))
			return err
		}},
		{"notify", func(r *rig, _ *virtqueue.Chain) error { r.q.NeedsNotify(); return r.q.Err() }},
	} {
		r := newRig(t, 4, nil)
		for range 3 {
			if _, err := r.drv.Add(vt.Desc{Addr: 0x20000, Len: 8},
				vt.Desc{Addr: 0x20000, Len: 8, Flags: vt.Write}); err != nil {
				break
			}
		}
		c := mustPop(t, r.q)
		done := mustPop(t, r.q)
		if err := r.q.Push(done.Head(), 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(r.FDs[0], 0); err != nil {
			t.Fatal(err)
		}
		if err := tt.op(r, c); !errors.Is(err, guestmem.ErrFault) {
			t.Errorf("%s on truncated memory: %v, want ErrFault", tt.name, err)
		}
	}
}

func TestChainReadWriteAt(t *testing.T) {
	t.Parallel()
	// Two regions that touch in the guest and not in the host: one buffer crosses the edge.
	g := vt.NewGuest(t, vt.Span{Addr: 0x100000, Size: mib}, vt.Span{Addr: 0x200000, Size: mib})
	d := vt.NewDriver(g, 8, true)
	r := &rig{g, d, newQueue(t, g, config(d))}
	edge := uint64(0x200000)
	text := []byte("the quick brown fox jumps over the lazy dog")
	g.Write(edge-7, text[:20])
	g.Write(0x250000, text[20:])
	rest := uint32(len(text) - 20)
	if _, err := d.Add(vt.Desc{Addr: edge - 7, Len: 20}, vt.Desc{},
		vt.Desc{Addr: 0x250000, Len: rest},
		vt.Desc{Addr: edge - 3, Len: 6, Flags: vt.Write},
		vt.Desc{Addr: 0x260000, Len: 100, Flags: vt.Write}); err != nil {
		t.Fatal(err)
	}
	c := mustPop(t, r.q)
	if len(c.Readable()) != 2 || len(c.Writable()) != 2 {
		t.Fatalf("%d readable and %d writable, want 2 and 2", len(c.Readable()), len(c.Writable()))
	}
	for off := range len(text) + 1 {
		for n := range len(text) - off + 2 {
			p := make([]byte, n)
			got, err := c.ReadAt(p, int64(off))
			want := copy(make([]byte, n), text[off:])
			if got != want || !bytes.Equal(p[:got], text[off:off+want]) ||
				(err != io.EOF) != (got == n) {
				t.Fatalf("ReadAt(%d bytes, %d) = %d, %v", n, off, got, err)
			}
		}
	}
	if n, err := c.WriteAt(text, 2); n != len(text) || err != nil {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
	if got := g.Read(edge-1, 4); !bytes.Equal(got, text[:4]) {
		t.Errorf("over the edge: %q", got)
	}
	if n, err := c.WriteAt(make([]byte, 10), 100); n != 6 || err != io.ErrShortWrite {
		t.Errorf("WriteAt past the end = %d, %v", n, err)
	}
	if _, err := c.ReadAt(nil, -1); err == nil {
		t.Error("ReadAt at -1 succeeded")
	}
}
