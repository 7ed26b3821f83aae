// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// guest writes the library's side of an arena.
type guest struct {
	mem      []byte
	appended uint32
}

func (g *guest) command(op uint16, words ...uint64) {
	c := wire.Command{Op: op, Size: uint32(wire.CommandSize + 8*len(words))}
	at := g.appended % wire.RingBytes
	b := g.mem[wire.Ring+int(at):]
	c.Encode(b)
	for i, w := range words {
		binary.LittleEndian.PutUint64(b[wire.CommandSize+8*i:], w)
	}
	g.publish(g.appended + c.Size)
}

func (g *guest) publish(to uint32) {
	g.appended = to
	binary.LittleEndian.PutUint32(g.mem[wire.ArenaHeaderAppendedOffset:], to)
}

func newPair(t *testing.T) (*guest, *Arena) {
	t.Helper()
	mem := make([]byte, MinBytes)
	a, err := New(mem)
	if err != nil {
		t.Fatal(err)
	}
	return &guest{mem: mem}, a
}

func TestCommandsArriveInOrder(t *testing.T) {
	g, a := newPair(t)
	var c Command
	for i := range uint64(300000) {
		g.command(7, i, ^i)
		ok, err := a.Next(&c)
		for err == nil && !ok && a.Pending() {
			ok, err = a.Next(&c)
		}
		if err != nil || !ok {
			t.Fatalf("command %d: %v %v", i, ok, err)
		}
		if c.Op != 7 || c.N != 2 || c.Words[0] != i || c.Words[1] != ^i {
			t.Fatalf("command %d: got %+v", i, c.Words[:c.N])
		}
		a.Consume(&c)
		if room := wire.RingBytes - g.appended%wire.RingBytes; room < 40 {
			// The next command doesn't fit: a filler takes the rest, if its header fits.
			g.publish(g.appended + room)
			if room >= wire.CommandSize {
				fill := wire.Command{Size: room}
				fill.Encode(g.mem[wire.Ring+int(g.appended-room)%wire.RingBytes:])
			}
			for a.Pending() {
				if ok, err := a.Next(&c); err != nil {
					t.Fatal(err)
				} else if ok {
					a.Consume(&c)
				}
			}
		}
	}
}

func TestHostileRing(t *testing.T) {
	tests := []struct {
		name    string
		size    uint32
		publish uint32
	}{
		{"size 0", 0, 64},
		{"size below a header", 16, 64},
		{"size not a multiple of 8", 28, 64},
		{"size beyond what is written", 128, 64},
		{"size wraps", 0xfffffff8, 64},
		{"more written than the ring holds", 24, wire.RingBytes + 24},
		{"less than a header written", 24, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, a := newPair(t)
			h := wire.Command{Op: 1, Size: tt.size}
			h.Encode(g.mem[wire.Ring:])
			g.publish(tt.publish)
			var c Command
			if ok, err := a.Next(&c); ok || !errors.Is(err, ErrRing) {
				t.Fatalf("Next = %v, %v; want ErrRing", ok, err)
			}
		})
	}
}

func TestBulkBounds(t *testing.T) {
	_, a := newPair(t)
	size := uint64(MinBytes)
	for _, tt := range []struct {
		offset, n uint64
		ok        bool
	}{
		{wire.Bulk, 1, true}, {wire.Bulk, size - wire.Bulk, true}, {size, 0, true},
		{wire.Bulk - 1, 1, false}, {0, 8, false}, {size, 1, false},
		{wire.Bulk, size - wire.Bulk + 1, false},
		{1 << 63, 1 << 63, false}, {wire.Bulk, ^uint64(0), false},
	} {
		if _, err := a.Bulk(tt.offset, tt.n); (err == nil) != tt.ok {
			t.Errorf("Bulk(%d, %d) = %v, want ok %v", tt.offset, tt.n, err, tt.ok)
		}
	}
}

func TestOutputIsWholeOrDropped(t *testing.T) {
	g, a := newPair(t)
	text := make([]byte, 1000)
	wrote := 0
	for a.Dropped() == 0 {
		a.Print(1, text)
		wrote++
	}
	head := binary.LittleEndian.Uint32(g.mem[wire.ArenaHeaderOutputHeadOffset:])
	if head > wire.OutputBytes || int(head) != (wrote-1)*(1000+wire.OutputRecordSize) {
		t.Fatalf("head %d after %d writes", head, wrote)
	}
	binary.LittleEndian.PutUint32(g.mem[wire.ArenaHeaderOutputTailOffset:], head)
	a.Print(2, []byte("x"))
	if got := binary.LittleEndian.Uint32(g.mem[wire.ArenaHeaderOutputHeadOffset:]); got != head+16 {
		t.Fatalf("head %d, want %d", got, head+16)
	}
}

func FuzzNext(f *testing.F) {
	f.Add(uint32(64), uint32(24), uint32(0))
	f.Fuzz(func(t *testing.T, appended, size, start uint32) {
		mem := make([]byte, MinBytes)
		a, _ := New(mem)
		a.consumed, a.limit = start, start
		h := wire.Command{Size: size}
		if at := start % wire.RingBytes; at+wire.CommandSize <= wire.RingBytes {
			h.Encode(mem[wire.Ring+int(at):])
		}
		binary.LittleEndian.PutUint32(mem[wire.ArenaHeaderAppendedOffset:], appended)
		var c Command
		if ok, err := a.Next(&c); ok && (err != nil || c.Size > appended-start) {
			t.Fatalf("took %d of %d bytes: %v", c.Size, appended-start, err)
		}
	})
}
