// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// pool counts what is taken of it.
type pool struct {
	mu           sync.Mutex
	bound, taken uint64
	calls        int
}

func (p *pool) Take(bytes uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.taken > p.bound || bytes > p.bound-p.taken {
		return false
	}
	p.taken += bytes
	return true
}

func (p *pool) Force(bytes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken += bytes
}

func (p *pool) Give(bytes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.taken -= bytes
}

// TestPool: two budgets together can take what there is, up to the last byte, and not one more.
func TestPool(t *testing.T) {
	t.Parallel()
	p := &pool{bound: 3*Chunk + 5}
	a, b := Of(math.MaxUint64, p), Of(100*Chunk, p)
	if a.Take(1) != nil || p.taken != Chunk || b.Take(2*Chunk) != nil || p.taken != 3*Chunk {
		t.Fatalf("%d taken", p.taken)
	}
	err := b.Take(6)
	if !errors.Is(err, ErrExceeded) || !strings.Contains(err.Error(), "vm-host-memory") ||
		b.Used() != 2*Chunk || p.taken != 3*Chunk {
		t.Errorf("more than there is: %v, %d used, %d taken", err, b.Used(), p.taken)
	}
	if b.Room(6) || !b.Room(5) || b.Take(5) != nil || b.Room(1) || p.taken != p.bound {
		t.Errorf("the last bytes: %d used, %d taken", b.Used(), p.taken)
	}
	if a.Take(Chunk-1) != nil || a.Take(1) == nil || a.Take(math.MaxUint64-Chunk) == nil {
		t.Errorf("what it has it can use: %d used", a.Used())
	}
	b.Give(2*Chunk + 5)
	if p.taken != Chunk || a.Take(2*Chunk) != nil {
		t.Errorf("after it was given back %d are taken", p.taken)
	}
	b.Force(Chunk + 1)
	if p.taken != 3*Chunk+2*Chunk {
		t.Errorf("what is there already: %d taken", p.taken)
	}
	b.Give(Chunk + 1)
	a.Give(3 * Chunk)
	if p.taken > 2*Chunk || a.Used() != 0 || b.Used() != 0 {
		t.Errorf("in the end %d are taken", p.taken)
	}
}

// TestPoolIsSeldomAsked: once for each Chunk at most, not for each Take and Give.
func TestPoolIsSeldomAsked(t *testing.T) {
	t.Parallel()
	p := &pool{bound: math.MaxUint64}
	b := Of(math.MaxUint64, p)
	for range 100000 {
		if b.Take(1<<10) != nil {
			t.Fatal("refused")
		}
		if b.Give(1 << 9); b.Take(1<<9) != nil {
			t.Fatal("refused")
		}
	}
	if most := 100000<<10/Chunk + 1; p.calls > most {
		t.Errorf("it was asked %d times, want %d at most", p.calls, most)
	}
}

// TestPoolIsNeverForgotten: after many goroutines have taken and given, the pool counts exactly
// what the budgets keep of it, and that is little.
func TestPoolIsNeverForgotten(t *testing.T) {
	t.Parallel()
	p := &pool{bound: 20 * Chunk}
	budgets := []*Budget{Of(15*Chunk, p), Of(15*Chunk, p)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			b, had := budgets[i%2], uint64(0)
			for range 2000 {
				if n := rand.Uint64N(4 * Chunk); b.Take(n) == nil {
					had += n
				}
				if n := rand.Uint64N(had + 1); rand.IntN(2) == 0 {
					b.Give(n)
					had -= n
				}
			}
			b.Give(had)
		})
	}
	wg.Wait()
	for _, b := range budgets {
		if b.Used() != 0 || b.part.taken.Load() > 2*Chunk {
			t.Errorf("%d used, %d taken in the end", b.Used(), b.part.taken.Load())
		}
	}
	if want := budgets[0].part.taken.Load() + budgets[1].part.taken.Load(); p.taken != want {
		t.Errorf("the pool has %d taken, want %d", p.taken, want)
	}
}
