// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"errors"
	"fmt"
	"testing"

	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// judge pops one chain and holds it against the oracle.
func judge(g *vt.Guest, q *Queue, r vt.Rules, head uint16) error {
	want, wantErr := g.Oracle(r, head)
	c, ok, err := q.Pop()
	var ce *ChainError
	if errors.As(err, &ce) {
		if wantErr == nil {
			return fmt.Errorf("Pop = %w, the oracle accepts %v", err, want)
		}
		if ce.Head != head {
			return fmt.Errorf("error for head %d, want %d", ce.Head, head)
		}
		return q.Push(head, 0)
	}
	if err != nil || !ok {
		return fmt.Errorf("Pop = %v, %w", ok, err)
	}
	if wantErr != nil {
		return fmt.Errorf("chain %d is accepted, the oracle rejects it", head)
	}
	if err := sameBuffers(c, want); err != nil {
		return err
	}
	return q.Push(head, c.WriteLen())
}

// sameBuffers compares a chain with what the oracle found.
func sameBuffers(c *Chain, want []vt.Buffer) error {
	var read, write uint32
	got := append(append([]Buffer(nil), c.Readable()...), c.Writable()...)
	if len(got) != len(want) {
		return fmt.Errorf("buffers %v, want %v", got, want)
	}
	for i, p := range want {
		if got[i].Addr != p.Addr || got[i].Len != p.Len || (i >= len(c.Readable())) != p.Write {
			return fmt.Errorf("buffers %v, want %v", got, want)
		}
		if p.Write {
			write += p.Len
		} else {
			read += p.Len
		}
	}
	if c.ReadLen() != read || c.WriteLen() != write {
		return fmt.Errorf("%d+%d bytes, want %d+%d", c.ReadLen(), c.WriteLen(), read, write)
	}
	return nil
}

// oracleRig is a guest with rings of four in one region, and two more regions that touch.
func oracleRig(tb testing.TB, indirect bool) (*vt.Guest, *vt.Driver, *Queue, vt.Rules) {
	tb.Helper()
	g := vt.NewGuest(tb, vt.Span{Addr: 0x1000, Size: 0x1000},
		vt.Span{Addr: 0x10000, Size: 0x1000}, vt.Span{Addr: 0x11000, Size: 0x1000})
	d := vt.NewDriver(g, 4, true)
	q, err := New(g.Mem, Config{
		Size: 4, Desc: d.Desc, Avail: d.Avail, Used: d.Used, EventIdx: true, Indirect: indirect,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(q.Close)
	return g, d, q, vt.Rules{Size: 4, Desc: d.Desc, Indirect: indirect, MaxChain: 4}
}

// TestEveryChainOfFour enumerates every table of four descriptors with five values of next (one of
// them out of range) and all eight values of the flags: 40^4 tables, each judged by the oracle. The
// indirect descriptors point at a good table.
func TestEveryChainOfFour(t *testing.T) {
	t.Parallel()
	g, d, q, rules := oracleRig(t, true)
	g.Write(0x10100, append(vt.Desc{Addr: 0x10800, Len: 3, Flags: vt.Next, Next: 1}.Bytes(),
		vt.Desc{Addr: 0x10900, Len: 5, Flags: vt.Write}.Bytes()...))
	step := 1
	if testing.Short() || raceEnabled {
		step = 97 // prime to 40, so that all values of all descriptors are still seen
	}
	n := 0
	last := [4]int{-1, -1, -1, -1}
	for code := 0; code < 40*40*40*40; code += step {
		for i, rest := 0, code; i < 4; i, rest = i+1, rest/40 {
			if last[i] == rest%40 {
				continue
			}
			last[i] = rest % 40
			flags, next := uint16(rest%8), uint16(rest%40/8)
			e := vt.Desc{Addr: 0x10000 + uint64(i)*0x100, Len: uint32(i + 1), Flags: flags,
				Next: next}
			if flags&vt.Indirect != 0 {
				e.Addr, e.Len = 0x10100, 32
			}
			d.SetDesc(uint16(i), e)
		}
		head := uint16(code & 3)
		d.Offer(head)
		if err := judge(g, q, rules, head); err != nil {
			t.Fatalf("table %d: %v", code, err)
		}
		n++
	}
	t.Logf("%d tables", n)
}

// FuzzRawRings makes the whole of guest memory out of raw bytes, rings included. Nothing may
// panic, and every chain that comes out lies in guest memory.
func FuzzRawRings(f *testing.F) {
	f.Add(make([]byte, 256), true)
	f.Add([]byte{0, 0x10, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0}, false)
	f.Fuzz(func(t *testing.T, raw []byte, eventIdx bool) {
		g := vt.NewGuest(t, vt.Span{Addr: 0, Size: 0x1000})
		g.Write(0, raw[:min(len(raw), 0x1000)])
		q, err := New(g.Mem, Config{
			Size: 8, Desc: 0, Avail: 0x80, Used: 0xa0, EventIdx: eventIdx, Indirect: true,
			MaxChain: 16,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		for range 40 {
			c, ok, err := q.Pop()
			var ce *ChainError
			switch {
			case errors.As(err, &ce):
				_ = q.Push(ce.Head, 0)
			case err != nil:
				if q.Err() != err || q.Push(0, 0) == nil {
					t.Fatalf("%v, but the queue isn't broken", err)
				}
				return
			case !ok:
				_, _ = q.EnableKick()
				return
			default:
				for _, s := range append(c.Readable(), c.Writable()...) {
					if s.Len == 0 || s.Addr >= 0x1000 || s.Addr+uint64(s.Len) > 0x1000 {
						t.Fatalf("buffer %+v is outside guest memory", s)
					}
				}
				p := make([]byte, min(c.WriteLen(), 4096))
				_, _ = c.ReadAt(p, 0)
				_, _ = c.WriteAt(p, 0)
				if err := q.Push(c.Head(), uint32(len(p))); err != nil {
					t.Fatalf("Push: %v", err)
				}
			}
			q.NeedsNotify()
			_ = q.DisableKick()
		}
	})
}

// FuzzIndirect makes a descriptor and an indirect table out of raw bytes and asks the oracle.
func FuzzIndirect(f *testing.F) {
	f.Add(uint64(0x10100), uint32(32), uint16(4),
		append(vt.Desc{Addr: 0x10000, Len: 9, Flags: 1, Next: 1}.Bytes(),
			vt.Desc{Addr: 0x10ff0, Len: 99, Flags: 2}.Bytes()...))
	f.Add(uint64(0x10ff8), uint32(48), uint16(4), make([]byte, 48))
	f.Add(uint64(1<<64-8), uint32(16), uint16(6), make([]byte, 16))
	f.Add(uint64(0x11ff0), uint32(32), uint16(4), make([]byte, 16))
	f.Fuzz(func(t *testing.T, addr uint64, n uint32, flags uint16, table []byte) {
		for _, indirect := range []bool{true, false} {
			g, d, q, rules := oracleRig(t, indirect)
			if g.Mem.Check(addr, uint64(len(table))) == nil {
				g.Write(addr, table)
			}
			d.SetDesc(1, vt.Desc{Addr: addr, Len: n, Flags: flags, Next: 2})
			d.SetDesc(2, vt.Desc{Addr: 0x11800, Len: 1, Flags: vt.Write})
			d.Offer(1)
			if err := judge(g, q, rules, 1); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzSplitVsOracle plays a script against a queue and a model of it: chains of any shape are
// offered, taken, and returned in any order, and used ring and interrupts must be the model's.
func FuzzSplitVsOracle(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint16(0))
	f.Add([]byte{0, 1, 0, 2, 0, 3, 1, 0, 1, 0, 1, 0, 2, 2, 2, 0, 2, 1, 3, 0}, uint16(65534))
	f.Add([]byte{4, 3, 0, 0, 5, 7, 1, 0, 2, 0, 6, 0, 0, 255}, uint16(7))
	f.Fuzz(func(t *testing.T, script []byte, start uint16) {
		m := newModel(t, start)
		for i := 0; i+1 < len(script) && i < 400; i += 2 {
			if !m.step(script[i], script[i+1]) {
				return
			}
		}
	})
}

// model is what a driver expects of a queue of four, in plain lists.
type model struct {
	t       *testing.T
	g       *vt.Guest
	d       *vt.Driver
	q       *Queue
	rules   vt.Rules
	waiting []uint16          // offered, not taken
	flying  []uint16          // taken, not returned
	limit   map[uint16]uint32 // how much each may report as written
	used    uint16
	told    uint16 // used index when NeedsNotify was last asked
	event   uint16
}

func newModel(t *testing.T, start uint16) *model {
	g, d, _, rules := oracleRig(t, true)
	d.StartAt(start)
	q, err := New(g.Mem, Config{
		Size: 4, Desc: d.Desc, Avail: d.Avail, Used: d.Used, Base: start, EventIdx: true,
		Indirect: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return &model{t: t, g: g, d: d, q: q, rules: rules, limit: map[uint16]uint32{}, used: start,
		told: start}
}

// step plays one operation and reports whether the queue is still whole.
func (m *model) step(op, arg byte) bool {
	switch op % 7 {
	case 0:
		if len(m.waiting) < 4 {
			m.waiting = append(m.waiting, uint16(arg&7))
			m.d.Offer(uint16(arg & 7))
		}
	case 1:
		return m.pop()
	case 2:
		m.push(int(arg))
	case 3:
		want := vt.Passed(m.event, m.told, m.used)
		if got := m.q.NeedsNotify(); got != want {
			m.t.Fatalf("NeedsNotify = %v, want %v", got, want)
		}
		m.told = m.used
	case 4:
		m.d.SetDesc(uint16(arg&3),
			vt.Desc{Addr: 0x10ff0 + uint64(arg), Len: uint32(arg), Flags: uint16(arg >> 2 & 7),
				Next: uint16(arg >> 4 & 7)})
	case 5:
		m.event = m.used + uint16(int8(arg))
		m.d.SetUsedEvent(m.event)
	case 6:
		if more, err := m.q.EnableKick(); err != nil || more != (len(m.waiting) > 0) {
			m.t.Fatalf("EnableKick = %v, %v with %d waiting", more, err, len(m.waiting))
		}
	}
	return true
}

func (m *model) pop() bool {
	c, ok, err := m.q.Pop()
	if len(m.waiting) == 0 {
		if ok || err != nil {
			m.t.Fatalf("Pop of an empty queue = %v, %v", ok, err)
		}
		return true
	}
	head := m.waiting[0]
	m.waiting = m.waiting[1:]
	_, twice := m.limit[head]
	var re *RingError
	if head > 3 || twice {
		if !errors.As(err, &re) {
			m.t.Fatalf("Pop of head %d = %v, %v, want a ring error", head, ok, err)
		}
		return false
	}
	buffers, bad := m.g.Oracle(m.rules, head)
	var ce *ChainError
	if errors.As(err, &ce) != (bad != nil) || errors.As(err, &re) {
		m.t.Fatalf("Pop of head %d = %v, the oracle says %v", head, err, bad)
	}
	m.flying = append(m.flying, head)
	m.limit[head] = 0
	if bad == nil {
		if err := sameBuffers(c, buffers); err != nil || c.Head() != head {
			m.t.Fatalf("chain %d: %v", c.Head(), err)
		}
		m.limit[head] = c.WriteLen()
	}
	return true
}

func (m *model) push(arg int) {
	if len(m.flying) == 0 {
		if err := m.q.Push(uint16(arg), 0); !errors.Is(err, ErrNotInFlight) {
			m.t.Fatalf("Push(%d) with nothing in flight = %v", arg, err)
		}
		return
	}
	i := arg % len(m.flying)
	head := m.flying[i]
	written := uint32(arg) / 4
	err := m.q.Push(head, written)
	if (err == nil) != (written <= m.limit[head]) {
		m.t.Fatalf("Push of %d bytes of %d = %v", written, m.limit[head], err)
	}
	if err != nil {
		return
	}
	m.flying = append(m.flying[:i:i], m.flying[i+1:]...)
	delete(m.limit, head)
	m.used++
	if id, n, ok := m.d.Reap(); !ok || id != uint32(head) || n != written {
		m.t.Fatalf("Reap = %d, %d, %v, want %d, %d", id, n, ok, head, written)
	}
	if m.q.Flying() != len(m.flying) || m.d.UsedIdx() != m.used {
		m.t.Fatalf("%d in flight, used index %d, want %d, %d", m.q.Flying(), m.d.UsedIdx(),
			len(m.flying), m.used)
	}
}
