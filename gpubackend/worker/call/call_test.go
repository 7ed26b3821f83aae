// SPDX-License-Identifier: Apache-2.0

package call

import (
	"bytes"
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// fakePages are pages with that content.
type fakePages struct{ b []byte }

func (p *fakePages) Read(b []byte) gpubackend.Result { copy(b, p.b); return gpubackend.Success }
func (p *fakePages) Write(b []byte)                  { copy(p.b, b) }

// fakeMemory is a bulk area of eight bytes and one MAP, with number 7.
type fakeMemory struct {
	bulk   [8]byte
	pages  fakePages
	copied uint64
	host   *budget.Budget
}

func (m *fakeMemory) buffers() *Buffers {
	return &Buffers{
		Bulk: func(offset, n uint64) ([]byte, error) {
			if offset > 8 || n > 8-offset {
				return nil, errors.New("beyond the bulk area")
			}
			return m.bulk[offset : offset+n], nil
		},
		Pages: func(r Reference, _ bool) (Pages, gpubackend.Result) {
			if r.MapID() != 7 || r.MapOffset() != 0 || r.Bytes > uint64(len(m.pages.b)) {
				return nil, gpubackend.InvalidValue
			}
			return &m.pages, gpubackend.Success
		},
		Host:   m.host,
		Copied: func(n uint64) { m.copied += n },
	}
}

// started is a call with a reference in its first two words and a body behind them.
func started(b *Buffers, kind uint8, value, size uint64, body string) *Call {
	command := &arena.Command{N: 2, Body: []byte(body)}
	command.Words[0], command.Words[1] = uint64(kind)<<56|value, size
	c := New(b)
	c.Start(command)
	return &c
}

func TestBuffers(t *testing.T) {
	const behind = wire.CommandSize
	for _, tt := range []struct {
		name        string
		kind        uint8
		value, size uint64
		want        string
		result      gpubackend.Result
	}{
		{"none", wire.BufferNone, 0, 5, "", 0},
		{"inline", wire.BufferInline, behind + 2, 3, "cde", 0},
		{"inline, all", wire.BufferInline, behind, 6, "abcdef", 0},
		{"inline in the header", wire.BufferInline, behind - 1, 1, "", gpubackend.InvalidValue},
		{"inline behind the end", wire.BufferInline, behind + 7, 0, "", gpubackend.InvalidValue},
		{"inline over the end", wire.BufferInline, behind + 5, 2, "", gpubackend.InvalidValue},
		{"bulk", wire.BufferBulk, 1, 3, "ULK", 0},
		{"bulk over the end", wire.BufferBulk, 6, 3, "", gpubackend.InvalidValue},
		{"map", wire.BufferMap, 7 << 32, 4, "page", 0},
		{"another map", wire.BufferMap, 8 << 32, 4, "", gpubackend.InvalidValue},
		{"unknown kind", 99, 0, 4, "", gpubackend.InvalidValue},
		{"too large", wire.BufferMap, 7 << 32, maxBuffer + 1, "", gpubackend.InvalidValue},
		{"more than the host has", wire.BufferMap, 7 << 32, 20, "", gpubackend.OutOfMemory},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &fakeMemory{pages: fakePages{[]byte("pages of the guest....")},
				host: budget.New(16)}
			copy(m.bulk[:], "BULKAREA")
			b := m.buffers()
			c := started(b, tt.kind, tt.value, tt.size, "abcdef")
			got, result := c.Input(0)
			if string(got) != tt.want || result != tt.result {
				t.Fatalf("%q, %v", got, result)
			}
			if m.copied != uint64(len(tt.want)) || m.host.Used() != uint64(len(tt.want)) {
				t.Errorf("%d bytes copied, %d counted", m.copied, m.host.Used())
			}
			b.Release()
			if m.host.Used() != 0 {
				t.Errorf("%d bytes stay counted", m.host.Used())
			}
			if len(got) > 0 { // it is a copy
				got[0]++
				if again, _ := c.Input(0); string(again) != tt.want {
					t.Errorf("then %q", again)
				}
			}
		})
	}
}

func TestOutput(t *testing.T) {
	m := &fakeMemory{pages: fakePages{make([]byte, 4)}, host: budget.New(16)}
	for _, kind := range []uint8{wire.BufferBulk, wire.BufferMap} {
		value := map[uint8]uint64{wire.BufferMap: 7 << 32}[kind]
		out, result := started(m.buffers(), kind, value, 4, "").Output(0)
		if result != gpubackend.Success || len(out.Bytes) != 4 {
			t.Fatalf("kind %d: %d bytes, %v", kind, len(out.Bytes), result)
		}
		copy(out.Bytes, "done")
		out.Done()
	}
	if !bytes.Equal(m.bulk[:4], []byte("done")) || !bytes.Equal(m.pages.b, []byte("done")) {
		t.Errorf("bulk area %q, pages %q", m.bulk, m.pages.b)
	}
}

func TestTextsAndStructures(t *testing.T) {
	m := &fakeMemory{}
	b := m.buffers()
	if s, result := started(b, wire.BufferInline, wire.CommandSize, 6,
		"ab\x00def").Text(0); s != "ab" || result != 0 {
		t.Errorf("%q, %v", s, result)
	}
	for size, want := range map[uint64]gpubackend.Result{0: 0, 4: 0, 3: gpubackend.InvalidValue} {
		c := started(b, wire.BufferInline, wire.CommandSize, size, "abcdef")
		if _, result := c.Structure(0, 4, true); result != want {
			t.Errorf("%d bytes: %v", size, result)
		}
	}
	if _, result := started(b, wire.BufferNone, 0, 0, "").Structure(0, 4,
		false); result != gpubackend.InvalidValue {
		t.Errorf("nothing: %v", result)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	c := started(nil, 0, 0, 0, "")
	for i := range uint64(maxAnswer + 5) {
		c.Answer(i)
	}
	if n := len(c.Answers()); n != maxAnswer {
		t.Errorf("%d words", n)
	}
	if c.Unanswer(); len(c.Answers()) != 0 {
		t.Error("words are left")
	}
	if c.Word(2) != 0 || c.Word(1<<20) != 0 {
		t.Error("words that weren't sent")
	}
}

func TestTable(t *testing.T) {
	var table Table
	var order []string
	says := func(s string) Handler {
		return Handler{Run: func(*Call) gpubackend.Result { order = append(order, s); return 0 }}
	}
	around := func(s string) Step {
		return func(c *Call, run func(*Call) gpubackend.Result) gpubackend.Result {
			order = append(order, s)
			return run(c)
		}
	}
	table.Add(Handlers{1: says("one"), 2: says("two")})
	table.Wrap(Steps{2: around("inner")})
	table.Wrap(Steps{2: around("outer")})
	for _, op := range []gpubackend.Op{0, 3, Ops, 65535} {
		if table.Find(op) != nil {
			t.Errorf("command %d has a handler", op)
		}
	}
	table.Find(1).Run(nil)
	table.Find(2).Run(nil)
	if got := len(order); got != 4 || order[1] != "outer" || order[2] != "inner" ||
		order[3] != "two" {
		t.Errorf("%v", order)
	}
	for name, wrong := range map[string]func(){
		"two handlers": func() { table.Add(Handlers{1: says("again")}) },
		"no handler":   func() { table.Wrap(Steps{9: around("nothing")}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			wrong()
		}()
	}
}

// TestDecoded has a handler run for what the decoder takes, and for nothing else; neither
// allocates.
func TestDecoded(t *testing.T) {
	var got command.MemPoolTrimTo
	h := Decoded(command.DecodeMemPoolTrimTo,
		func(c *Call, a command.MemPoolTrimTo) gpubackend.Result {
			got = a
			c.Put(command.MemPoolImportFromShareableHandleAnswer{Pool: a.Pool, Device: a.Keep})
			return gpubackend.Success
		})
	c := started(nil, 0, 7, 9, "")
	if result := h.Run(c); result != gpubackend.Success ||
		got != (command.MemPoolTrimTo{Pool: 7, Keep: 9}) {
		t.Errorf("%v, %v", result, got)
	}
	if a := c.Answers(); len(a) != 2 || a[0] != 7 || a[1] != 9 {
		t.Errorf("answer %v", a)
	}
	if n := testing.AllocsPerRun(100, func() { h.Run(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	c.Command.N = 1
	got = command.MemPoolTrimTo{}
	if result := h.Run(c); result != gpubackend.InvalidValue || got.Pool != 0 {
		t.Errorf("a word too few: %v, %v", result, got)
	}
}

// TestAround has a step run for what the decoder takes, and neither it nor the handler for anything
// else; nothing allocates.
func TestAround(t *testing.T) {
	var got command.StreamBeginCapture
	ran := 0
	run := func(*Call) gpubackend.Result { ran++; return gpubackend.NotReady }
	step := Around(command.DecodeStreamBeginCapture, func(
		c *Call, a command.StreamBeginCapture, run func(*Call) gpubackend.Result,
	) gpubackend.Result {
		got = a
		return run(c)
	})
	cmd := arena.Command{N: 2}
	cmd.Words[0], cmd.Words[1] = 7, 1
	c := New(nil)
	c.Start(&cmd)
	n := testing.AllocsPerRun(10, func() {
		if r := step(&c, run); r != gpubackend.NotReady {
			t.Fatalf("result %v", r)
		}
	})
	if n != 0 || got.HStream != 7 || got.Mode != 1 {
		t.Errorf("%v allocations, got %+v", n, got)
	}
	before := ran
	cmd.N = 1
	if r := step(&c, run); r != gpubackend.InvalidValue || ran != before {
		t.Errorf("too few words: result %v, ran %d times more", r, ran-before)
	}
}
