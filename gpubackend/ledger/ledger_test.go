// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/internal/memfdtest"
)

const testGPU = 7

func newPage(t testing.TB, bound uint64) *Page {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	p.SetBound(bound)
	t.Cleanup(p.Close)
	return p
}

// account is that of a new process with an entry.
func account(p *Page, entry int) *Account {
	process := NewProcess()
	process.Join(p, entry)
	return process.Account(testGPU)
}

func TestBound(t *testing.T) {
	p := newPage(t, 100)
	g, a, b := p.GPU(testGPU), account(p, 0), account(p, Workers-1)
	for _, test := range []struct {
		name  string
		of    *Account
		bytes uint64
		ok    bool
		taken uint64
	}{
		{"first", a, 60, true, 60},
		{"too much for the VM", b, 41, false, 60},
		{"the rest", b, 40, true, 100},
		{"one more", a, 1, false, 100},
		{"nothing", a, 0, true, 100},
		{"more than there is", a, math.MaxUint64, false, 100},
		{"wraps around", b, math.MaxUint64 - 50, false, 100},
	} {
		if ok := test.of.Take(Window, test.bytes); ok != test.ok || g.Taken() != test.taken {
			t.Errorf("%s: %t, %d taken", test.name, ok, g.Taken())
		}
	}
	p.SetBound(50)
	if !a.Over() {
		t.Error("a bound that became lower isn't exceeded")
	}
	a.Give(Window, 60)
	if a.Over() || b.Take(Arrays, 11) || !b.Take(Arrays, 10) {
		t.Errorf("%d taken of 50", g.Taken())
	}
	p.SetBound(0)
	if !a.Take(Code, 1<<40) || a.Over() {
		t.Error("no bound bounds")
	}
	if total, _, ok := a.Share(); ok {
		t.Errorf("share %d without a bound", total)
	}
}

func TestShare(t *testing.T) {
	p := newPage(t, 100)
	a, b := account(p, 1), account(p, 2)
	a.Take(Window, 30)
	b.Force(Graphs, 90)
	if total, taken, ok := a.Share(); total != 100 || taken != 100 || !ok {
		t.Errorf("%d of %d, %t", taken, total, ok)
	}
	b.Set(Graphs, 20)
	if _, taken, _ := a.Share(); taken != 50 || b.Held(Graphs) != 20 {
		t.Errorf("%d taken", taken)
	}
}

func TestNoAccount(t *testing.T) {
	var p *Process
	a := p.Account(testGPU)
	if !a.Take(Window, math.MaxUint64) || a.Held(Window) != 0 || a.Bound() != 0 {
		t.Error("no account counts")
	}
	if n := a.Context(5); n != 5 {
		t.Errorf("a context takes %d", n)
	}
	a.Force(Code, 1)
	a.Give(Code, 1)
}

// TestJoin counts what a process took before it had an entry, and moves what it had in another one.
func TestJoin(t *testing.T) {
	p := newPage(t, 100)
	g := p.GPU(testGPU)
	process := NewProcess()
	a := process.Account(testGPU)
	if !a.Take(Contexts, 150) {
		t.Fatal("bounded without a page")
	}
	process.Join(p, Warm+3)
	if h := g.Holding(Warm + 3); g.Taken() != 150 || h.Kinds[Contexts] != 150 {
		t.Errorf("%d taken, %+v", g.Taken(), h)
	}
	process.Join(p, 4)
	before, now := g.Holding(Warm+3), g.Holding(4)
	if g.Taken() != 150 || before.Sum() != 0 || now.Kinds[Contexts] != 150 {
		t.Errorf("%d taken, %+v, %+v", g.Taken(), before, now)
	}
	other := process.Account(testGPU + 1)
	if !other.Take(Window, 90) || p.GPU(testGPU+1).Taken() != 90 {
		t.Error("the other GPU")
	}
}

func TestEnd(t *testing.T) {
	p := newPage(t, 100)
	audit := NewAudit(p, 0)
	audit.SetBound(100)
	audit.Begin(5, 1234)
	a, b := account(p, 5), account(p, 6)
	a.Take(Window, 50)
	a.Take(Contexts, 20)
	b.Take(Window, 30)
	g := p.GPU(testGPU)
	if h := g.Holding(5); h.PID != 1234 || h.Sum() != 70 {
		t.Errorf("%+v", h)
	}
	audit.End(5)
	if h := g.Holding(5); h.PID != 0 || h.Sum() != 0 || g.Taken() != 30 || !b.Take(Window, 70) {
		t.Errorf("%+v, %d taken", h, g.Taken())
	}
}

// oracle is a ledger that adds everything up again each time.
type oracle struct {
	bound uint64
	held  map[int]*[Kinds]uint64
}

func (o *oracle) sum() (sum uint64) {
	for _, h := range o.held {
		for _, n := range h {
			sum += n
		}
	}
	return sum
}

// TestLikeAnOracle does the same at random on both.
func TestLikeAnOracle(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		o := oracle{bound: 1000, held: map[int]*[Kinds]uint64{}}
		p := newPage(t, o.bound)
		audit := NewAudit(p, 0)
		audit.SetBound(o.bound)
		accounts := map[int]*Account{}
		for range 500 {
			entry, k := random.IntN(4), Kind(random.IntN(Kinds))
			if accounts[entry] == nil {
				accounts[entry], o.held[entry] = account(p, entry), new([Kinds]uint64)
			}
			a, h, bytes := accounts[entry], o.held[entry], random.Uint64N(400)
			switch random.IntN(6) {
			case 0, 1, 2:
				want := o.bound == 0 || o.sum()+bytes <= o.bound
				if got := a.Take(k, bytes); got != want {
					t.Fatalf("seed %d: take %d: %t, want %t", seed, bytes, got, want)
				} else if got {
					h[k] += bytes
				}
			case 3:
				bytes = min(bytes, h[k])
				a.Give(k, bytes)
				h[k] -= bytes
			case 4:
				a.Set(k, bytes)
				h[k] = bytes
			case 5:
				if random.IntN(4) == 0 {
					audit.End(entry)
					delete(accounts, entry)
					delete(o.held, entry)
				} else {
					o.bound = []uint64{0, 500, 1000, 2000}[random.IntN(4)]
					audit.SetBound(o.bound)
				}
			}
			if g := p.GPU(testGPU); g.Taken() != o.sum() {
				t.Fatalf("seed %d: %d taken, want %d", seed, g.Taken(), o.sum())
			}
			for entry, h := range o.held {
				if got := p.GPU(testGPU).Holding(entry); got.Kinds != *h {
					t.Fatalf("seed %d: entry %d holds %v, want %v", seed, entry, got.Kinds, *h)
				}
			}
		}
	}
}

// TestNeverOverTheBound has processes take and give at once: the sum never passes the bound, and is
// 0 in the end.
func TestNeverOverTheBound(t *testing.T) {
	p := newPage(t, 1000)
	g := p.GPU(testGPU)
	var running sync.WaitGroup
	for entry := range 4 {
		running.Add(1)
		go func() {
			defer running.Done()
			a, random := account(p, entry), rand.New(rand.NewPCG(uint64(entry), 2))
			for range 20000 {
				bytes := random.Uint64N(600)
				if !a.Take(Window, bytes) {
					continue
				}
				if taken := g.Taken(); taken > 1000 {
					t.Errorf("%d taken of 1000", taken)
					return
				}
				a.Give(Window, bytes)
			}
		}()
	}
	running.Wait()
	if g.Taken() != 0 {
		t.Errorf("%d taken in the end", g.Taken())
	}
}

func TestHostileFiles(t *testing.T) {
	for name, fd := range memfdtest.Hostile(t, pageBytes,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW) {
		if _, err := Open(fd); !errors.Is(err, ErrPage) {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s: the descriptor is left open", name)
		}
	}
}

func BenchmarkTakeGive(b *testing.B) {
	a := account(newPage(b, 1<<40), 0)
	b.ReportAllocs()
	for b.Loop() {
		a.Take(Window, 2<<20)
		a.Give(Window, 2<<20)
	}
}

// TestHolders: those who ask are told of the guest's processes, each once, and of no others.
func TestHolders(t *testing.T) {
	page := newPage(t, 0)
	a := NewAudit(page, 0)
	for entry, pid := range map[int]int32{3: 30, 7: 70, 9: 90, Mover: 0, Warm: 1} {
		a.Begin(entry, pid)
		p := NewProcess()
		p.Join(page, entry)
		if entry != 9 { // it has nothing
			p.Account(testGPU).Force(Contexts, uint64(entry))
		}
	}
	var got []Holding
	for from := 0; ; {
		entry, h, ok := page.Holder(testGPU, from)
		if !ok {
			break
		}
		got, from = append(got, h), entry+1
	}
	if len(got) != 2 || got[0].PID != 30 || got[0].Sum() != 3 || got[1].PID != 70 {
		t.Errorf("holders %+v", got)
	}
	for _, from := range []int{-1, Workers, math.MaxInt} {
		if entry, _, ok := page.Holder(testGPU, from); ok && entry != 3 {
			t.Errorf("from %d: entry %d", from, entry)
		}
	}
	if _, _, ok := page.Holder(testGPU+1, 0); ok || len(page.Known()) != 1 {
		t.Error("to ask for a GPU that nobody uses makes it known")
	}
	for _, word := range []uint64{0, 1, 38, math.MaxUint64} {
		wordAt(page.mem, busyAt).Store(word)
		if percent, known := page.Busy(); known != (word != 0) || percent < 0 || percent > 100 {
			t.Errorf("word %d: %d %%, known: %v", word, percent, known)
		}
	}
	if page.SetBusy(37); wordAt(page.mem, busyAt).Load() != 38 {
		t.Error("what SetBusy says isn't what Busy reads")
	}
}
