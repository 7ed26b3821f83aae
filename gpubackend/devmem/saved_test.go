// SPDX-License-Identifier: Apache-2.0

package devmem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

func all(ledger.Kind) bool { return false }

func saveHeap(t testing.TB, h *Heap, leaveOut func(ledger.Kind) bool) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := h.Save(&b, leaveOut); err != nil {
		t.Fatal(err)
	}
	if uint64(b.Len()) > h.SavedBytes() {
		t.Fatalf("%d bytes, it said at most %d", b.Len(), h.SavedBytes())
	}
	return b.Bytes()
}

// restoreFrom makes an empty heap what s is, with segments back, its allocations asked for in an
// order of its own.
func (s *slowHeap) restoreFrom(b []byte, r *rand.Rand, first *slowHeap) {
	s.t.Helper()
	restoring, err := Restore(s.heap, bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	if len(s.back.segments) != 0 {
		s.t.Fatal("memory is mapped before it is asked for")
	}
	var addrs []uint64
	for _, p := range restoring.Segments() {
		addrs = append(addrs, p.Address)
	}
	if err := ReturnAll(func(uint64) *Heap { return s.heap }, addrs); err != nil {
		s.t.Fatal(err)
	}
	order := slices.Sorted(maps.Keys(first.live))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for len(order) > 0 {
		n := 1 + r.IntN(min(3, len(order)))
		if err := restoring.Next(order[:n]...); err != nil {
			s.t.Fatal(err)
		}
		for _, addr := range order[:n] {
			s.claim(first, addr)
		}
		order = order[n:]
	}
	if err := restoring.Done(); err != nil {
		s.t.Fatal(err)
	}
	s.live, s.kinds = maps.Clone(first.live), maps.Clone(first.kinds)
	s.order = slices.Clone(first.order)
	s.check()
}

// claim asks for an allocation that was announced, as whoever had it did.
func (s *slowHeap) claim(first *slowHeap, addr uint64) {
	s.t.Helper()
	size, kind := first.live[addr], first.kinds[addr]
	alloc := s.heap.AllocSegment
	if first.heap.segments.floor(key{hi: addr}).value.shared {
		alloc = s.heap.AllocAs
	}
	if got, err := alloc(kind, size+1); !errors.Is(err, ErrSaved) {
		s.t.Fatalf("another size: %#x, %v", got, err)
	}
	if got, err := alloc(kind, size); got != addr || err != nil {
		s.t.Fatalf("%#x, %v; want %#x", got, err, addr)
	}
}

// TestSavedHeapGoesOn: a heap that was restored has everything where it was, and gives out the same
// addresses ever after.
func TestSavedHeapGoesOn(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		first := newSlowHeap(t, 128<<20)
		for range r.IntN(1500) {
			first.step(r.Uint64())
		}
		b := saveHeap(t, first.heap, all)
		second := newSlowHeap(t, 128<<20)
		second.restoreFrom(b, r, first)
		if !bytes.Equal(saveHeap(t, second.heap, all), b) {
			t.Fatalf("seed %d: it is saved in another way", seed)
		}
		if second.heap.mapped != first.heap.mapped {
			t.Fatalf("%d bytes count, want %d", second.heap.mapped, first.heap.mapped)
		}
		for range 600 {
			op := r.Uint64()
			first.step(op)
			second.step(op)
			if !slices.Equal(first.order, second.order) {
				t.Fatalf("seed %d: they give out other addresses from then on", seed)
			}
		}
		first.finish()
		second.finish()
	}
}

// TestSavedWhileAway, and without what isn't to come along.
func TestSavedWhileAway(t *testing.T) {
	h, _ := newTestHeap(t, 1<<30, 1<<30)
	small, large := mustAlloc(t, h, 512), mustAlloc(t, h, 64<<20)
	staging, err := h.AllocSegment(ledger.Staging, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	leaveOut := func(k ledger.Kind) bool { return k == ledger.Staging }
	b := saveHeap(t, h, leaveOut)
	if err := LeaveAll(func(uint64) *Heap { return h }, []uint64{small, large}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saveHeap(t, h, leaveOut), b) {
		t.Error("it is saved in another way while memory is away")
	}
	again, _ := newTestHeap(t, 1<<30, 1<<30)
	restoring, err := Restore(again, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if list := restoring.Segments(); len(list) != 2 || again.Begins(staging) {
		t.Errorf("segments %v", list)
	}
}

// savedOf is a saved heap of the window of some.
func savedOf(s saved) []byte {
	h := Heap{base: s.base, window: s.window}
	for _, p := range s.segments {
		h.segments.insert(key{hi: p.addr},
			segment{size: p.size, shared: p.shared, kind: p.kind, away: true})
	}
	for _, a := range s.allocations {
		h.live.insert(key{hi: a.addr}, allocation{size: a.size, kind: a.kind,
			owner: h.segments.root.key.hi})
	}
	var b bytes.Buffer
	_ = h.Save(&b, all)
	return b.Bytes()
}

// TestSavedHeapsThatCantBe are refused, and change nothing.
func TestSavedHeapsThatCantBe(t *testing.T) {
	const g = Granularity
	in := func(segments []savedSegment, allocations ...savedAllocation) saved {
		return saved{Base, 1 << 30, segments, allocations}
	}
	one := []savedSegment{{Base, g, 0, false}}
	cut := []savedSegment{{Base, g, 0, true}}
	for name, tt := range map[string]struct {
		s    saved
		good bool
	}{
		"nothing": {in(nil), true},
		"one":     {in(one, savedAllocation{Base, 100, 0}), true},
		"two in one": {in(cut,
			savedAllocation{Base, 512, 0}, savedAllocation{Base + 512, 1, 4}), true},
		"another window": {saved{base: Base, window: 2 << 30}, false},
		"another base":   {saved{base: Base + g, window: 1 << 30}, false},
		"empty segment":  {in(one), false},
		"empty cut up":   {in(cut), false},
		"beyond": {in([]savedSegment{{Base + 1<<30, g, 0, false}},
			savedAllocation{Base + 1<<30, g, 0}), false},
		"over the end": {in([]savedSegment{{Base, 1<<30 + g, 0, false}},
			savedAllocation{Base, 1<<30 + g, 0}), false},
		"before": {in([]savedSegment{{Base - g, g, 0, false}},
			savedAllocation{Base - g, g, 0}), false},
		"not aligned": {in([]savedSegment{{Base + 512, g, 0, false}},
			savedAllocation{Base + 512, g, 0}), false},
		"wraps": {in([]savedSegment{{Base, -g & (1<<64 - 1), 0, false}},
			savedAllocation{Base, 1, 0}), false},
		"too small":       {in(one, savedAllocation{Base, g + 1, 0}), false},
		"of another kind": {in(one, savedAllocation{Base, g, 2}), false},
		"in no segment": {in(one,
			savedAllocation{Base, g, 0}, savedAllocation{Base + g, g, 0}), false},
		"overlap": {in(cut,
			savedAllocation{Base, 513, 0}, savedAllocation{Base + 512, 1, 0}), false},
		"off":   {in(cut, savedAllocation{Base + 8, 1, 0}), false},
		"empty": {in(cut, savedAllocation{Base, 0, 0}), false},
		"cut up, kind": {in([]savedSegment{{Base, g, 4, true}},
			savedAllocation{Base, 1, 4}), false},
		"overlapping": {in([]savedSegment{{Base, 2 * g, 0, false}, {Base + g, g, 0, false}},
			savedAllocation{Base, 2 * g, 0}, savedAllocation{Base + g, g, 0}), false},
	} {
		h, _ := newTestHeap(t, 1<<30, 1<<30)
		_, err := Restore(h, bytes.NewReader(savedOf(tt.s)))
		if (err == nil) != tt.good || err != nil && !errors.Is(err, ErrSaved) {
			t.Errorf("%s: %v", name, err)
		}
		if !tt.good && h.Len() != 0 {
			t.Errorf("%s: %d allocations", name, h.Len())
		}
		if !tt.good {
			mustAlloc(t, h, 1)
		}
	}
}

// TestRestoreHeapThatGoesWrong in any way is refused.
func TestRestoreHeapThatGoesWrong(t *testing.T) {
	first, _ := newTestHeap(t, 1<<30, 1<<30)
	a, large := mustAlloc(t, first, 512), mustAlloc(t, first, 64<<20)
	b := saveHeap(t, first, all)
	if _, err := Restore(first, bytes.NewReader(b)); !errors.Is(err, ErrSaved) {
		t.Errorf("into one that isn't empty: %v", err)
	}
	poor, _ := newTestHeap(t, 1<<30, 1<<30)
	poor.Meter(budget.New(hostBytes))
	if _, err := Restore(poor, bytes.NewReader(b)); !errors.Is(err, ErrSaved) {
		t.Errorf("without host memory: %v", err)
	}
	for n := range b {
		h, _ := newTestHeap(t, 1<<30, 1<<30)
		if _, err := Restore(h, bytes.NewReader(b[:n])); !errors.Is(err, ErrSaved) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	h, _ := newTestHeap(t, 1<<30, 1<<30)
	r, err := Restore(h, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"none there": r.Next(a + 512), "twice": r.Next(a, a), "not done": r.Done(),
	} {
		if !errors.Is(err, ErrSaved) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Alloc(512); !errors.Is(err, ErrSaved) {
		t.Errorf("not announced: %v", err)
	}
	if err := r.Next(large, a); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Alloc(512); !errors.Is(err, ErrSaved) {
		t.Errorf("in another order: %v", err)
	}
	if got, err := h.Alloc(64 << 20); got != large || err != nil {
		t.Errorf("%#x, %v", got, err)
	}
	if err := r.Next(large); !errors.Is(err, ErrSaved) {
		t.Errorf("given out already: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestSaveHeapThatFails(t *testing.T) {
	h, _ := newTestHeap(t, 1<<30, 1<<30)
	if err := h.Save(failing{}, all); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

// FuzzRestore: what is restored is saved again as it was.
func FuzzRestore(f *testing.F) {
	h, _ := newTestHeap(f, 1<<30, 1<<30)
	mustAlloc(f, h, 512)
	mustAlloc(f, h, 64<<20)
	f.Add(saveHeap(f, h, all))
	f.Add(binary.LittleEndian.AppendUint64(nil, Base))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _ := newTestHeap(t, 1<<30, 1<<30)
		if _, err := Restore(h, bytes.NewReader(b)); err != nil {
			return
		}
		if again := saveHeap(t, h, all); !bytes.Equal(again, b) {
			t.Errorf("%x, saved again %x", b, again)
		}
		h.Close()
	})
}
