// SPDX-License-Identifier: Apache-2.0

package devmem

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// fakeBacking keeps what is mapped and fails the test on calls that don't fit.
type fakeBacking struct {
	t        testing.TB
	segments map[uint64]uint64
	maps     int
	refuse   uint64 // sizes from here on are refused, 0 for none
}

func (b *fakeBacking) Map(addr, bytes uint64) error {
	if bytes == 0 || addr%Granularity != 0 || bytes%Granularity != 0 {
		b.t.Fatalf("Map(%#x, %#x): not aligned", addr, bytes)
	}
	if b.refuse != 0 && bytes >= b.refuse {
		return errors.New("refused")
	}
	for a, n := range b.segments {
		if addr < a+n && a < addr+bytes {
			b.t.Fatalf("Map(%#x, %#x) overlaps %#x, %#x", addr, bytes, a, n)
		}
	}
	b.segments[addr] = bytes
	b.maps++
	return nil
}

func (b *fakeBacking) Unmap(addr, bytes uint64) {
	if b.segments[addr] != bytes {
		b.t.Fatalf("Unmap(%#x, %#x), mapped are %#x", addr, bytes, b.segments[addr])
	}
	delete(b.segments, addr)
}

func (b *fakeBacking) mapped() (sum uint64) {
	for _, n := range b.segments {
		sum += n
	}
	return sum
}

func newTestHeap(t testing.TB, window, limit uint64) (*Heap, *fakeBacking) {
	t.Helper()
	b := &fakeBacking{t: t, segments: make(map[uint64]uint64)}
	h, err := New(Base, window, limit, b)
	if err != nil {
		t.Fatal(err)
	}
	return h, b
}

func mustAlloc(t testing.TB, h *Heap, bytes uint64) uint64 {
	t.Helper()
	addr, err := h.Alloc(bytes)
	if err != nil {
		t.Fatalf("Alloc(%d): %v", bytes, err)
	}
	return addr
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name         string
		base, window uint64
	}{
		{"base 0", 0, Window},
		{"base not aligned", Base + 512, Window},
		{"no window", Base, 0},
		{"window not aligned", Base, 4096},
		{"window wraps", 1<<64 - Granularity, 2 * Granularity},
	} {
		if _, err := New(c.base, c.window, Window, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSmallAllocationsShareASegment(t *testing.T) {
	h, b := newTestHeap(t, Window, Window)
	for i := range uint64(1000) {
		if got, want := mustAlloc(t, h, 1), Base+i*Alignment; got != want {
			t.Fatalf("allocation %d at %#x, want %#x", i, got, want)
		}
	}
	if b.maps != 1 || h.Used() != SharedSegment || h.Len() != 1000 {
		t.Errorf("%d segments, %d bytes used, %d allocations", b.maps, h.Used(), h.Len())
	}
}

func TestLargeAllocationsHaveTheirOwnSegment(t *testing.T) {
	h, b := newTestHeap(t, Window, Window)
	addr := mustAlloc(t, h, LargestShared+1)
	if got := b.segments[addr]; got != LargestShared+Granularity {
		t.Errorf("segment of %d bytes", got)
	}
	if err := h.Free(addr); err != nil || len(b.segments) != 0 || h.Used() != 0 {
		t.Errorf("after Free: %v, %d segments, %d bytes used", err, len(b.segments), h.Used())
	}
	if again := mustAlloc(t, h, LargestShared+1); again != addr {
		t.Errorf("second allocation at %#x, first at %#x", again, addr)
	}
}

func TestAllocSegmentSharesNothing(t *testing.T) {
	h, b := newTestHeap(t, Window, Window)
	addr, err := h.AllocSegment(ledger.Window, 1)
	if err != nil || b.segments[addr] != Granularity {
		t.Fatalf("segment of %d bytes, %v", b.segments[addr], err)
	}
	if other := mustAlloc(t, h, 1); other < addr+Granularity && other >= addr {
		t.Errorf("allocation at %#x inside the segment at %#x", other, addr)
	}
}

func TestEmptySegmentIsKeptOnce(t *testing.T) {
	h, b := newTestHeap(t, Window, Window)
	for range 100 {
		if err := h.Free(mustAlloc(t, h, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	if b.maps != 1 || h.Used() != 0 {
		t.Errorf("%d mappings for allocate and free, %d bytes used", b.maps, h.Used())
	}
	if !h.Trim() || h.Trim() || len(b.segments) != 0 {
		t.Errorf("after Trim: %d segments", len(b.segments))
	}
}

func TestLimit(t *testing.T) {
	h, b := newTestHeap(t, Window, 48<<20)
	keep := mustAlloc(t, h, 1)
	if _, err := h.Alloc(16<<20 + 1); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("above the limit: %v", err)
	}
	big := mustAlloc(t, h, 16<<20)
	if h.Used() != h.Limit() {
		t.Errorf("%d bytes used of %d", h.Used(), h.Limit())
	}
	for _, size := range []uint64{1 << 62, 1<<64 - 1, 1 << 63} {
		if _, err := h.Alloc(size); !errors.Is(err, ErrOutOfMemory) {
			t.Errorf("Alloc(%#x): %v", size, err)
		}
	}
	if err := h.Free(keep); err != nil {
		t.Fatal(err)
	}
	if err := h.Free(big); err != nil {
		t.Fatal(err)
	}
	// The spare segment makes room for one that needs the whole limit.
	mustAlloc(t, h, 48<<20)
	if b.mapped() != 48<<20 {
		t.Errorf("%d bytes mapped", b.mapped())
	}
}

func TestSharedSegmentsShrinkNearTheLimit(t *testing.T) {
	h, _ := newTestHeap(t, Window, 36<<20)
	var sum uint64
	for {
		if _, err := h.Alloc(1 << 20); err != nil {
			break
		}
		sum += 1 << 20
	}
	if sum != 36<<20 {
		t.Errorf("%d bytes allocated of %d", sum, 36<<20)
	}
}

func TestBackingFails(t *testing.T) {
	h, b := newTestHeap(t, Window, Window)
	b.refuse = 8 << 20
	if _, err := h.Alloc(9 << 20); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("large: %v", err)
	}
	if addr := mustAlloc(t, h, 1); b.segments[addr] != 4<<20 {
		t.Errorf("shared segment of %d bytes", b.segments[addr])
	}
	if h.Used() != 4<<20 {
		t.Errorf("%d bytes used", h.Used())
	}
}

func TestWindowFull(t *testing.T) {
	h, _ := newTestHeap(t, 4*Granularity, Window)
	addr, err := h.AllocSegment(ledger.Window, 4*Granularity)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Alloc(1); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("full window: %v", err)
	}
	if err := h.Free(addr); err != nil {
		t.Fatal(err)
	}
	mustAlloc(t, h, 1)
}

func TestFreeRefuses(t *testing.T) {
	h, _ := newTestHeap(t, Window, Window)
	addr := mustAlloc(t, h, 4096)
	for _, c := range []struct {
		name string
		addr uint64
	}{{"null", 0}, {"interior", addr + 512}, {"after", addr + 4096}, {"before", addr - 1},
		{"host", 0x7fff00000000}} {
		if err := h.Free(c.addr); !errors.Is(err, ErrNotAllocated) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := h.Free(addr); err != nil {
		t.Fatal(err)
	}
	if err := h.Free(addr); !errors.Is(err, ErrNotAllocated) {
		t.Errorf("twice: %v", err)
	}
	if _, err := h.Alloc(0); !errors.Is(err, ErrInvalid) {
		t.Errorf("no bytes: %v", err)
	}
}

func TestFind(t *testing.T) {
	h, _ := newTestHeap(t, Window, Window)
	a := mustAlloc(t, h, 100)
	mustAlloc(t, h, 1)
	for _, c := range []struct {
		name string
		addr uint64
		ok   bool
	}{
		{"first", a, true}, {"last", a + 99, true}, {"padding", a + 100, false},
		{"below", a - 1, false},
		{"null", 0, false},
	} {
		base, size, ok := h.Find(c.addr)
		if ok != c.ok || ok && (base != a || size != 100) {
			t.Errorf("%s: %#x, %d, %v", c.name, base, size, ok)
		}
	}
}

func TestSetLimitAndClose(t *testing.T) {
	h, b := newTestHeap(t, Window, Window)
	mustAlloc(t, h, 64<<20)
	h.SetLimit(1 << 20)
	if _, err := h.Alloc(1); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("above a lowered limit: %v", err)
	}
	h.SetLimit(Window)
	mustAlloc(t, h, 1)
	h.Close()
	if len(b.segments) != 0 {
		t.Errorf("%d segments after Close", len(b.segments))
	}
}

func BenchmarkAllocFree(b *testing.B) {
	h, _ := newTestHeap(b, Window, Window)
	for range 10000 {
		mustAlloc(b, h, 1024)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Free(mustAlloc(b, h, 1<<20)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAllocationsCount: each takes of the host's memory, also where the device has enough.
func TestAllocationsCount(t *testing.T) {
	h, _ := newTestHeap(t, 64<<20, 64<<20)
	host := budget.New(10 * hostBytes)
	h.Meter(host)
	var addrs []uint64
	for range 9 {
		addr, err := h.Alloc(512)
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, addr)
	}
	_, err := h.AllocSegment(ledger.Window, 1<<30)
	if !errors.Is(err, ErrOutOfMemory) || host.Used() != 9*hostBytes {
		t.Errorf("a segment that is too large: %v, %d bytes are counted", err, host.Used())
	}
	if _, err := h.AllocSegment(ledger.Window, 512); err != nil {
		t.Error(err)
	}
	if _, err := h.Alloc(512); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("one too many: %v", err)
	}
	if err := h.Free(addrs[0]); err != nil || host.Used() != 9*hostBytes {
		t.Errorf("free: %v, %d bytes are counted", err, host.Used())
	}
	h.Close()
	if host.Used() != 0 {
		t.Errorf("%d bytes are counted in the end", host.Used())
	}
}

// TestAccount: what the account refuses isn't mapped, and an empty segment makes room for it.
func TestAccount(t *testing.T) {
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	page.SetBound(40 << 20)
	process := ledger.NewProcess()
	process.Join(page, 0)
	h, b := newTestHeap(t, 1<<30, 1<<30)
	h.Count(process.Account(1))
	taken := page.GPU(1).Taken
	small := mustAlloc(t, h, 512)
	if taken() != SharedSegment {
		t.Errorf("%d bytes are taken for a small allocation", taken())
	}
	if _, err := h.Alloc(10 << 20); !errors.Is(err, ErrOutOfMemory) || b.mapped() != SharedSegment {
		t.Errorf("beyond the bound: %v, %d bytes are mapped", err, b.mapped())
	}
	if err := h.Free(small); err != nil || taken() != SharedSegment {
		t.Errorf("free: %v, %d bytes are taken", err, taken())
	}
	mustAlloc(t, h, 40<<20)
	if err := h.Charge(ledger.Arrays, 1); !errors.Is(err, ErrOutOfMemory) || taken() != 40<<20 {
		t.Errorf("charge beyond the bound: %v, %d bytes are taken", err, taken())
	}
	b.refuse = 1
	page.SetBound(0)
	if _, err := h.Alloc(20 << 20); !errors.Is(err, ErrOutOfMemory) || taken() != 40<<20 {
		t.Errorf("what the backing refuses: %v, %d bytes are taken", err, taken())
	}
	h.Recharge(ledger.Graphs, 0, 5<<20)
	h.Recharge(ledger.Graphs, 5<<20, 2<<20)
	h.Uncharge(ledger.Graphs, 2<<20)
	if h.Close(); taken() != 0 {
		t.Errorf("%d bytes are taken in the end", taken())
	}
}
