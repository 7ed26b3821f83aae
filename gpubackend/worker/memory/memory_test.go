// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/offers/offerstest"
)

func TestWholeMappings(t *testing.T) {
	m := &Memory{}
	for _, at := range []uint64{0, 2, 3, 6} {
		m.mapped = append(m.mapped, mapped{Range: addresses.Of(ReserveBase+at*page, page)})
	}
	for _, c := range []struct {
		from, pages uint64
		whole       bool
	}{
		{0, 1, true}, {2, 1, true}, {2, 2, true}, {3, 1, true}, {6, 1, true},
		{0, 2, false}, {1, 1, false}, {1, 3, false}, {2, 3, false}, {5, 2, false}, {7, 1, false},
		{0, 0, false},
	} {
		if _, _, ok := m.whole(ReserveBase+c.from*page, c.pages*page); ok != c.whole {
			t.Errorf("pages %d, %d: %v", c.from, c.pages, ok)
		}
	}
}

func TestAlignedRanges(t *testing.T) {
	for _, c := range []struct {
		base, bytes uint64
		ok          bool
	}{
		{ReserveBase, page, true},
		{ReserveEnd - page, page, true},
		{ReserveBase, ReserveEnd - ReserveBase, true},
		{ReserveBase + 1, page, false},
		{ReserveBase, page + 1, false},
		{ReserveBase, 0, false},
		{ReserveEnd - page, 2 * page, false},
		{ReserveEnd, page, false},
		{ReserveBase - page, page, false},
		{ReserveBase, ^uint64(page - 1), false},
	} {
		if aligned(c.base, c.bytes) != c.ok {
			t.Errorf("%#x, %#x: %v", c.base, c.bytes, !c.ok)
		}
	}
}

// fakeDriver counts what it has. Descriptors are events, so that each is a file of its own.
type fakeDriver struct {
	made, released gpubackend.Memory
	taken          []gpubackend.CreatedMemory
	protected      []uint64
	full           bool
}

func (d *fakeDriver) Reserve(uint64, uint64) gpubackend.Result   { return gpubackend.Success }
func (d *fakeDriver) Unreserve(uint64, uint64) gpubackend.Result { return gpubackend.Success }
func (d *fakeDriver) CreateMemory(uint64, uint64, uint64) (gpubackend.Memory, gpubackend.Result) {
	if d.full {
		return 0, gpubackend.OutOfMemory
	}
	d.made++
	return d.made, gpubackend.Success
}
func (d *fakeDriver) TakeMemory(m gpubackend.CreatedMemory) gpubackend.Result {
	_, result := d.CreateMemory(m.Bytes, m.Device, m.Compression)
	d.taken = append(d.taken, m)
	return result
}
func (d *fakeDriver) ReleaseMemory(gpubackend.Memory) gpubackend.Result {
	d.released++
	return gpubackend.Success
}
func (d *fakeDriver) MapMemory(uint64, uint64, gpubackend.Memory) gpubackend.Result {
	return gpubackend.Success
}
func (d *fakeDriver) UnmapMemory(uint64, uint64) gpubackend.Result { return gpubackend.Success }
func (d *fakeDriver) Protect(addr, _, _, _ uint64) gpubackend.Result {
	d.protected = append(d.protected, addr)
	return gpubackend.Success
}
func (d *fakeDriver) ExportMemory(gpubackend.Memory) (int, gpubackend.Result) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return -1, gpubackend.Unknown
	}
	return fd, gpubackend.Success
}
func (d *fakeDriver) ImportMemory(int, uint64, uint64) (gpubackend.Memory, gpubackend.Result) {
	return d.CreateMemory(0, 0, 0)
}

// fakeExports hands over whatever object is at hand.
type fakeExports struct {
	offered   []handover.Object
	withdrawn []uint32
	next      exports.Imported
	last      uint32 // that was given out before
}

func (x *fakeExports) Number() uint32   { return max(x.last, uint32(len(x.offered))) + 1 }
func (x *fakeExports) GaveOut(n uint32) { x.last = max(x.last, n) }
func (x *fakeExports) Offer(o handover.Object, _ uint64, _ int) gpubackend.Result {
	x.offered = append(x.offered, o)
	return gpubackend.Success
}
func (x *fakeExports) Withdraw(_ handover.ObjectKind, number uint32) {
	if number != 0 {
		x.withdrawn = append(x.withdrawn, number)
	}
}
func (x *fakeExports) Take(uint64, handover.ObjectKind) (exports.Imported, gpubackend.Result) {
	file, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return exports.Imported{File: -1}, gpubackend.Unknown
	}
	x.next.File = file
	return x.next, gpubackend.Success
}

// rig is a Memory with a fake around it.
type rig struct {
	*Memory
	driver  fakeDriver
	exports fakeExports
	objects object.Table
	waiting []func() (uint64, gpubackend.Result)
	ended   []uint64
	room    bool
	call    call.Call
}

// hub is the device process of all rigs.
var hub = offerstest.New()

func newRig() *rig {
	r := &rig{}
	own, _ := hub.Worker()
	r.Memory = New(Config{
		Driver: &r.driver, Objects: &r.objects, Places: addresses.PlacesFor(100),
		Exports: &r.exports, Offers: own,
		WhenIdle: func(_ *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result {
			r.waiting = append(r.waiting, then)
			return call.Pending
		},
		MakeRoom: func() bool { r.driver.full = r.driver.full && !r.room; return r.room },
		Ending:   func(address, _ uint64) { r.ended = append(r.ended, address) },
	})
	return r
}

func (r *rig) do(t *testing.T, want gpubackend.Result, op gpubackend.Op, words ...uint64) uint64 {
	t.Helper()
	command := &arena.Command{N: len(words)}
	copy(command.Words[:], words)
	r.call = call.Call{}
	r.call.Start(command)
	if got := r.Handlers()[op].Run(&r.call); got != want {
		t.Fatalf("%s: %v, want %v", op.Name(), got, want)
	}
	return append(r.call.Answers(), 0)[0]
}

const page = gpubackend.Granularity

// TestMemoryLastsAsLongAsItsUses: handles and mappings.
func TestMemoryLastsAsLongAsItsUses(t *testing.T) {
	r := newRig()
	h := r.do(t, 0, gpubackend.OpMemCreate, page, 0, 0)
	r.do(t, 0, gpubackend.OpMemAddressReserve, ReserveBase, 4*page)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpMemMap, ReserveBase+4*page, page, h)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpMemMap, ReserveBase, 2*page, h)
	r.do(t, 0, gpubackend.OpMemMap, ReserveBase, page, h)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpMemMap, ReserveBase, page, h)
	r.do(t, 0, gpubackend.OpMemSetAccess, ReserveBase, page, 0, gpubackend.AccessReadWrite)
	x, ok := r.At(ReserveBase + page - 1)
	if _, beyond := r.At(ReserveBase + page); !ok || beyond ||
		x.Access != gpubackend.AccessReadWrite || x.Bytes != page {
		t.Errorf("%+v", x)
	}
	r.do(t, 0, gpubackend.OpMemRelease, h)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpMemMap, ReserveBase+page, page, h)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpMemAddressFree, ReserveBase, 4*page)
	if r.driver.released != 0 {
		t.Fatal("memory went that is mapped")
	}
	r.ended = nil
	r.do(t, call.Pending, gpubackend.OpMemUnmap, ReserveBase, page)
	if len(r.ended) != 0 {
		t.Error("memory was taken away before the context was idle")
	}
	if _, result := r.waiting[0](); result != gpubackend.Success || r.driver.released != 1 ||
		len(r.ended) != 1 {
		t.Errorf("unmap: %v, %d released, ended %x", result, r.driver.released, r.ended)
	}
	r.do(t, 0, gpubackend.OpMemAddressFree, ReserveBase, 4*page)
	if r.Places.Used() != 0 {
		t.Errorf("%d places are used", r.Places.Used())
	}
}

// TestAccessIsTakenWhenIdle, and given at once.
func TestAccessIsTakenWhenIdle(t *testing.T) {
	r := newRig()
	h := r.do(t, 0, gpubackend.OpMemCreate, page, 0, 0)
	r.do(t, 0, gpubackend.OpMemAddressReserve, ReserveBase, page)
	r.do(t, 0, gpubackend.OpMemMap, ReserveBase, page, h)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpMemSetAccess, ReserveBase, page, 0, 2)
	for i, access := range []uint64{gpubackend.AccessRead, gpubackend.AccessReadWrite,
		gpubackend.AccessReadWrite} {
		r.do(t, 0, gpubackend.OpMemSetAccess, ReserveBase, page, 0, access)
		if want := min(i+1, 2); len(r.driver.protected) != want {
			t.Errorf("access %d: protected %d times", access, len(r.driver.protected))
		}
	}
	r.do(t, call.Pending, gpubackend.OpMemSetAccess, ReserveBase, page, 0, gpubackend.AccessNone)
	if x, _ := r.At(ReserveBase); x.Access != gpubackend.AccessReadWrite {
		t.Error("access was taken before the context was idle")
	}
	if _, result := r.waiting[0](); result != gpubackend.Success {
		t.Error(result)
	}
	if x, _ := r.At(ReserveBase); x.Access != gpubackend.AccessNone {
		t.Error("access wasn't taken")
	}
}

// TestOthersMakeRoom before memory is refused.
func TestOthersMakeRoom(t *testing.T) {
	r := newRig()
	r.driver.full = true
	r.do(t, gpubackend.OutOfMemory, gpubackend.OpMemCreate, page, 0, 0)
	r.room = true
	r.do(t, 0, gpubackend.OpMemCreate, page, 0, 0)
}

// TestSameMemoryCountsOnce: what comes back to its process, or a second time.
func TestSameMemoryCountsOnce(t *testing.T) {
	r := newRig()
	own := r.do(t, 0, gpubackend.OpMemCreate, page, 0, 0)
	defer r.Close()
	n := r.do(t, 0, gpubackend.OpMemExportToShareableHandle, own)
	if again := r.do(t, 0, gpubackend.OpMemExportToShareableHandle, own); again != n ||
		len(r.exports.offered) != 2 {
		t.Errorf("numbers %d and %d", n, again)
	}
	r.exports.next.Object = r.exports.offered[0]
	r.exports.next.Own = true
	back := r.do(t, 0, gpubackend.OpMemImportFromShareableHandle, 1)
	r.exports.next.Object = handover.Object{ID: 9, Bytes: page}
	one := r.do(t, 0, gpubackend.OpMemImportFromShareableHandle, 2)
	two := r.do(t, 0, gpubackend.OpMemImportFromShareableHandle, 3)
	if r.memory[own] != r.memory[back] || r.memory[one] != r.memory[two] ||
		r.memory[own] == r.memory[one] || r.driver.made != 2 {
		t.Errorf("%d memories are made", r.driver.made)
	}
	for _, h := range []uint64{own, back, one, two} {
		r.do(t, 0, gpubackend.OpMemRelease, h)
		r.do(t, gpubackend.InvalidValue, gpubackend.OpMemRelease, h)
	}
	exported, imported := r.Shared()
	if r.driver.released != 2 || exported != 0 || imported != 0 || len(r.exports.withdrawn) != 1 ||
		r.exports.withdrawn[0] != uint32(n) {
		t.Errorf("%d released, %d exported, %d imported, withdrawn %v", r.driver.released, exported,
			imported, r.exports.withdrawn)
	}
	for _, bytes := range []uint64{0, page + 1} {
		r.exports.next.Object = handover.Object{ID: 10, Bytes: bytes}
		r.do(t, gpubackend.InvalidValue, gpubackend.OpMemImportFromShareableHandle, 4)
	}
}
