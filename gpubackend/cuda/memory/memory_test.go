// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/sums"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// fake is a driver with memory that nothing is in, streams, and graphs.
type fake struct {
	sums.Calls // of a module's, none is called
	handle     uint64
	live       map[uint64]int // handles that weren't released
	mapped     map[uint64]uint64
	refuse     string // the call that fails
	waited     int
	whose      uint64 // memory that is imported: a device's
	busy       bool
	capture    bool
	trims      bool                 // graphs have something to give up
	access     map[[2]uint64]uint64 // of a device to what is mapped at an address
}

func (f *fake) result(name string) gpubackend.Result {
	if f.refuse == name {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

func (f *fake) CtxSynchronize() gpubackend.Result {
	f.waited++
	f.busy = false
	return f.result("wait")
}
func (f *fake) MemGetInfo() (free, total uint64, r gpubackend.Result) {
	return 60 << 30, 80 << 30, gpubackend.Success
}
func (f *fake) MemAddressReserve(_, at uint64) (uint64, gpubackend.Result) {
	return at, f.result("reserve")
}
func (f *fake) MemAddressFree(_, _ uint64) gpubackend.Result { return gpubackend.Success }
func (f *fake) MemCreate(_, _, _ uint64) (uint64, gpubackend.Result) {
	r := f.result("create")
	if r == gpubackend.Success {
		f.handle++
		f.live[f.handle]++
	}
	return f.handle, r
}
func (f *fake) MemRelease(handle uint64) gpubackend.Result {
	if f.live[handle]--; f.live[handle] == 0 {
		delete(f.live, handle)
	}
	return gpubackend.Success
}
func (f *fake) MemExport(uint64) (int, gpubackend.Result) {
	if r := f.result("export"); r != gpubackend.Success {
		return -1, r
	}
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, gpubackend.Unknown
	}
	return fd, gpubackend.Success
}
func (f *fake) MemImport(int) (uint64, gpubackend.Result) {
	f.live[1000]++
	return 1000, f.result("import")
}
func (f *fake) MemDevice(uint64) (uint64, gpubackend.Result) {
	return f.whose, f.result("device")
}
func (f *fake) MemMap(addr, bytes, _ uint64) gpubackend.Result {
	r := f.result("map")
	if r == gpubackend.Success {
		f.mapped[addr] = bytes
	}
	return r
}
func (f *fake) MemUnmap(addr, _ uint64) gpubackend.Result {
	delete(f.mapped, addr)
	return gpubackend.Success
}
func (f *fake) MemSetAccess(addr, bytes, device, access uint64) gpubackend.Result {
	if f.mapped[addr] != bytes {
		return gpubackend.InvalidValue
	}
	r := f.result("access")
	if r == gpubackend.Success {
		f.access[[2]uint64{device, addr}] = access
	}
	return r
}
func (f *fake) MemHostAlloc(uint64) (uint64, gpubackend.Result) {
	return 0, gpubackend.OutOfMemory
}
func (f *fake) MemFreeHost(uint64) gpubackend.Result { return gpubackend.Success }
func (f *fake) MemcpyDtoHAsync(_, _, _ uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.result("copy")
}
func (f *fake) MemcpyHtoDAsync(_, _, _ uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.result("copy")
}
func (f *fake) StreamCreateWithPriority(_, _ uint64) (gpubackend.Stream, gpubackend.Result) {
	return 1, f.result("stream")
}
func (f *fake) StreamDestroy(gpubackend.Stream) gpubackend.Result { return gpubackend.Success }

func (f *fake) StreamSynchronize(gpubackend.Stream) gpubackend.Result { return gpubackend.Success }

func (f *fake) Capturing() bool                  { return f.capture }
func (f *fake) FreeNow(uint64) gpubackend.Result { return gpubackend.InvalidValue }
func (f *fake) PointerAttribute(_, _ uint64) (uint64, gpubackend.Result) {
	return 0, gpubackend.InvalidValue
}
func (f *fake) Query() gpubackend.Result {
	if f.busy {
		return gpubackend.NotReady
	}
	return gpubackend.Success
}
func (f *fake) Trim() bool {
	gave := f.trims
	f.trims = false
	return gave
}

type room struct {
	*Memory
	fake *fake
	x    *contexts.Contexts
}

// newRoom is memory of 64 MiB on each GPU.
func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{fake: &fake{live: map[uint64]int{}, mapped: map[uint64]uint64{},
		access: map[[2]uint64]uint64{}}}
	x, list := contextstest.New(func(c *contexts.Context) { r.Ended(c) })
	for i := range list.Len() {
		list.At(i).Total = 64 << 20
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	ranges := copyable.New(r.fake, x)
	r.x = x
	r.Memory = New(r.fake, x, list, ranges, Options{Limit: 64 << 20, Log: logrus.NewEntry(log)})
	r.Connect(r.fake, r.fake)
	base, result := r.Open()
	if result != gpubackend.Success || base != devmem.Base ||
		!ranges.InWindow(base+2*devmem.Window-1) {
		t.Fatalf("open: %d, window at %#x", result, base)
	}
	t.Cleanup(r.Close)
	return r
}

func (r *room) alloc(t *testing.T, bytes uint64) uint64 {
	t.Helper()
	addr, result := r.MemAlloc(bytes)
	if result != gpubackend.Success {
		t.Fatalf("allocate: %d", result)
	}
	return addr
}

// work has the current context, and the driver, busy.
func (r *room) work() {
	r.fake.busy = true
	r.x.Current().Work.Touch(2)
}

// settle ends the work as far as is known without asking the driver.
func (r *room) settle() {
	r.x.Current().Work.Done(2)
	r.fake.busy = false
}

func TestFreedMemoryWaits(t *testing.T) {
	for _, test := range []struct {
		name   string
		end    func(r *room)
		again  bool // used again
		waited int
	}{
		{"at once when idle", func(*room) {}, true, 0},
		{"while busy", func(r *room) { r.work() }, false, 0},
		{"until the driver says that it is idle", func(r *room) { r.work(); r.fake.busy = false },
			true, 0},
		{"until there is nothing else", func(r *room) { r.work(); r.alloc(t, 40<<20) }, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRoom(t)
			p := r.alloc(t, 20<<20)
			if test.name != "at once when idle" {
				r.x.Current().Work.Touch(2)
				r.fake.busy = true
			}
			if result := r.MemFree(p); result != gpubackend.Success {
				t.Fatalf("free: %d", result)
			}
			if result := r.MemFree(p); result != gpubackend.InvalidValue {
				t.Errorf("free again: %d", result)
			}
			test.end(r)
			if q := r.alloc(t, 20<<20); (q == p) != test.again || r.fake.waited != test.waited {
				t.Errorf("used again: %t, waited %d times", q == p, r.fake.waited)
			}
		})
	}
}

// TestNobodyWaitsDuringACapture: it would end the capture.
func TestNobodyWaitsDuringACapture(t *testing.T) {
	r := newRoom(t)
	p := r.alloc(t, 60<<20)
	r.work()
	r.MemFree(p)
	r.fake.capture = true
	if _, result := r.MemAlloc(60 << 20); result != gpubackend.OutOfMemory || r.fake.waited != 0 {
		t.Errorf("result %d, waited %d times", result, r.fake.waited)
	}
}

// TestSettled gives freed memory back only when no context has work.
func TestSettled(t *testing.T) {
	r := newRoom(t)
	r.MemFree(r.alloc(t, 4096))
	r.work()
	p := r.alloc(t, 4096)
	r.MemFree(p)
	other, _ := r.x.DevicePrimaryCtxRetain(1)
	r.x.Of(other).Work.Touch(3)
	r.settle()
	if r.Settled(); r.Allocations(0) != 1 {
		t.Errorf("%d allocations while another context works", r.Allocations(0))
	}
	r.x.Of(other).Work.Done(3)
	if r.Settled(); r.Allocations(0) != 0 {
		t.Errorf("%d allocations", r.Allocations(0))
	}
}

func TestMemoryEndsWithItsContext(t *testing.T) {
	r := newRoom(t)
	r.alloc(t, 4096)
	r.work()
	r.MemFree(r.alloc(t, 4096))
	if c := r.x.Current(); !r.Holds(c) {
		t.Error("the context holds nothing")
	}
	r.x.DevicePrimaryCtxReset(0)
	if r.Holds(r.x.Current()) || r.Allocations(0) != 0 {
		t.Errorf("%d allocations are left", r.Allocations(0))
	}
}

// TestInherit: what was freed in a green context waits for its base.
func TestInherit(t *testing.T) {
	r := newRoom(t)
	base := r.x.Current()
	green := r.x.AddGreen(300, base)
	p := r.alloc(t, 4096)
	r.x.SetCurrent(300)
	r.work()
	r.MemFree(p)
	if r.Inherit(green); !r.Holds(base) || r.Holds(green) {
		t.Error("the base doesn't hold it")
	}
}

// TestStagingLeavesNoFile, whatever fails on the way to it.
func TestStagingLeavesNoFile(t *testing.T) {
	for _, refuse := range []string{"", "create", "export", "map", "access"} {
		t.Run(refuse, func(t *testing.T) {
			r := newRoom(t)
			r.fake.refuse = refuse
			addr, fd, result := r.Staging(4 << 20)
			if (result == gpubackend.Success) != (refuse == "") || (fd >= 0) != (refuse == "") {
				t.Fatalf("result %d, file %d", result, fd)
			}
			if h := &r.heaps[0]; h.backing.exported != -1 || h.backing.export {
				t.Errorf("file %d is left", h.backing.exported)
			}
			if len(r.fake.live) != 0 || refuse != "" && len(r.fake.mapped) != 0 {
				t.Errorf("%d handles, %d mappings are left", len(r.fake.live), len(r.fake.mapped))
			}
			if refuse == "" {
				r.fake.refuse = ""
				defer unix.Close(fd)
				other, err := r.Import(fd, 4<<20)
				if err != nil || other == addr || r.heaps[0].backing.imported != -1 {
					t.Errorf("import at %#x: %v", other, err)
				}
				r.x.SetCurrent(0) // the context that had it is gone
				err = r.Unimport(other)
				if err != nil || r.Unimport(1) == nil {
					t.Errorf("unmap: %v, and an address that isn't there", err)
				}
				r.Unstage(addr)
			}
			if used := r.Used(0); used != 0 {
				t.Errorf("%d bytes count", used)
			}
		})
	}
}

func TestChargesCount(t *testing.T) {
	r := newRoom(t)
	create := func(h uint64, result gpubackend.Result) func() (uint64, gpubackend.Result) {
		return func() (uint64, gpubackend.Result) { return h, result }
	}
	c := NewCharges(r.As(ledger.Arrays), r.x)
	for _, test := range []struct {
		name   string
		bytes  uint64
		ok     bool
		result gpubackend.Result
		want   gpubackend.Result
		used   uint64
	}{
		{"first", 20 << 20, true, 0, 0, 20 << 20},
		{"refused", 20 << 20, true, gpubackend.InvalidPTX, gpubackend.InvalidPTX, 20 << 20},
		{"unknown size", 0, false, 0, gpubackend.InvalidValue, 20 << 20},
		{"too large", 50 << 20, true, 0, gpubackend.OutOfMemory, 20 << 20},
		{"second", 40 << 20, true, 0, 0, 60 << 20},
	} {
		if _, result := c.Make(test.bytes, test.ok,
			create(test.bytes, test.result)); result != test.want || r.Used(0) != test.used {
			t.Errorf("%s: result %d, %d bytes", test.name, result, r.Used(0))
		}
	}
	c.Drop(20 << 20)
	c.Drop(20 << 20)
	if r.Used(0) != 40<<20 {
		t.Errorf("%d bytes", r.Used(0))
	}
	if c.Ended(r.x.Current()); r.Used(0) != 0 {
		t.Errorf("%d bytes in the end", r.Used(0))
	}
}

// TestMemoryOfTheGuestsOwn counts once for each that the guest knows, however often it is imported.
func TestMemoryOfTheGuestsOwn(t *testing.T) {
	r := newRoom(t)
	m, result := r.CreateMemory(20<<20, 0, 0)
	if result != gpubackend.Success || r.Used(0) != 20<<20 {
		t.Fatalf("create: %d, %d bytes", result, r.Used(0))
	}
	if _, result := r.CreateMemory(50<<20, 0, 0); result != gpubackend.OutOfMemory {
		t.Errorf("too much: %d", result)
	}
	r.fake.refuse = "create"
	if _, result := r.CreateMemory(20<<20, 0, 0); result != gpubackend.OutOfMemory ||
		r.Used(0) != 20<<20 {
		t.Errorf("the driver has none: %d, %d bytes", result, r.Used(0))
	}
	for range 2 {
		if _, result := r.ImportMemory(3, 20<<20, 0); result != gpubackend.Success ||
			r.Used(0) != 40<<20 {
			t.Errorf("import: %d, %d bytes", result, r.Used(0))
		}
	}
	r.fake.refuse = ""
	rest, result := r.CreateMemory(20<<20, 0, 0)
	if result != gpubackend.Success {
		t.Fatalf("the rest: %d", result)
	}
	if _, result := r.ImportMemory(3, 20<<20, 0); result != gpubackend.Success {
		t.Errorf("import of what counts already, where nothing more may: %d", result)
	}
	r.ReleaseMemory(1000)
	r.ReleaseMemory(rest)
	for _, want := range []uint64{40 << 20, 20 << 20} {
		if result := r.ReleaseMemory(1000); result != gpubackend.Success || r.Used(0) != want {
			t.Errorf("release: %d, %d bytes", result, r.Used(0))
		}
	}
	if result := r.ReleaseMemory(1000); result != gpubackend.InvalidValue {
		t.Errorf("release once more: %d", result)
	}
	if r.ReleaseMemory(m); r.Used(0) != 0 {
		t.Errorf("%d bytes in the end", r.Used(0))
	}
	if _, result := r.CreateMemory(1<<20, 5, 0); result != gpubackend.InvalidDevice {
		t.Errorf("of no GPU: %d", result)
	}
}
