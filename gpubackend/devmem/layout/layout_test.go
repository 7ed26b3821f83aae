// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// gpus are the heaps of two GPUs, and what is mapped.
type gpus struct {
	heaps  []*devmem.Heap
	mapped map[uint64]uint64
}

func (g *gpus) Map(addr, bytes uint64) error { g.mapped[addr] = bytes; return nil }
func (g *gpus) Unmap(addr, _ uint64)         { delete(g.mapped, addr) }

const window = 1 << 30

func (g *gpus) of(addr uint64) *devmem.Heap {
	if i := (addr - devmem.Base) / window; i < uint64(len(g.heaps)) {
		return g.heaps[i]
	}
	return nil
}

func newGPUs(t *testing.T) *gpus {
	t.Helper()
	g := &gpus{mapped: map[uint64]uint64{}}
	for i := range uint64(2) {
		h, err := devmem.New(devmem.Base+i*window, window, window, g)
		if err != nil {
			t.Fatal(err)
		}
		g.heaps = append(g.heaps, h)
	}
	return g
}

// TestMadeAgain: what was allocated is where it was, and nothing else is mapped, such as the
// mover's staging memory.
func TestMadeAgain(t *testing.T) {
	from, want := newGPUs(t), map[uint64]uint64{}
	for _, h := range from.heaps {
		for _, bytes := range []uint64{100, 5 << 20, 40 << 20} {
			addr, err := h.Alloc(bytes)
			if err != nil {
				t.Fatal(err)
			}
			want[addr] = bytes
		}
		if _, err := h.AllocSegment(ledger.Staging, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := Save(from.heaps, &b); err != nil {
		t.Fatal(err)
	}
	to := newGPUs(t)
	var r Restorer
	if err := r.Begin(to.heaps, to.of, bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	if len(to.mapped) != len(from.mapped)-2 {
		t.Errorf("%v is mapped, before %v", to.mapped, from.mapped)
	}
	if err := r.End(); !errors.Is(err, devmem.ErrSaved) {
		t.Errorf("nothing was asked for: %v", err)
	}
	for addr, bytes := range want {
		if err := r.Next(addr); err != nil {
			t.Fatal(err)
		}
		if at, err := to.of(addr).Alloc(bytes); err != nil || at != addr {
			t.Errorf("%d bytes are at %#x, not %#x: %v", bytes, at, addr, err)
		}
	}
	if has, had := Allocations(to.heaps), Allocations(from.heaps); has != had || has != len(want) {
		t.Errorf("%d allocations, before %d, want %d", has, had, len(want))
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
	if r.Next(devmem.Base) == nil {
		t.Error("it goes on after its end")
	}
	if _, err := to.heaps[0].Alloc(1); err != nil {
		t.Error(err)
	}
}

// TestStrangeLayouts are refused.
func TestStrangeLayouts(t *testing.T) {
	from := newGPUs(t)
	if _, err := from.heaps[1].Alloc(100); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Save(from.heaps, &b); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		to := newGPUs(t)
		if _, err := Restore(to.heaps, to.of, bytes.NewReader(b.Bytes()[:n])); err == nil {
			t.Fatalf("%d bytes of %d are enough", n, b.Len())
		}
	}
	one := newGPUs(t)
	if _, err := Restore(one.heaps[:1], one.of, &b); !errors.Is(err, ErrLayout) {
		t.Errorf("for one GPU: %v", err)
	}
	var none Restorer
	if err := none.Next(devmem.Base); !errors.Is(err, ErrLayout) || none.End() != nil {
		t.Errorf("nothing is restored: %v", err)
	}
}
