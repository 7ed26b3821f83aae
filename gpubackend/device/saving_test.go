// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

func noProgress(suspend.Progress) {}

// saveTo suspends to a file, and says that there is no worker any more.
func (s *suspended) saveTo() *os.File {
	s.t.Helper()
	f, keep := s.file(), func() error { return nil }
	if _, err := s.dev.saving.Save(f, false, nil, keep, noProgress); err != nil {
		s.t.Fatal(err)
	}
	if n := s.workers(); n != 0 || inLedger(s.page) != 0 {
		s.t.Fatalf("%d workers are left, with %d bytes", n, inLedger(s.page))
	}
	if x := s.dev.suspension.Status(); x.State != suspend.Suspended || !x.Saved || x.Image != 0 {
		s.t.Fatalf("%+v", x)
	}
	return f
}

// file is a file without content.
func (s *suspended) file() *os.File {
	s.t.Helper()
	f, err := os.Create(filepath.Join(s.t.TempDir(), "state"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() })
	return f
}

// workers is how many channels have one.
func (v *vm) workers() (n int) {
	return len(v.dev.channels.Serving())
}

func (s *suspended) resumeFrom(f io.ReaderAt) {
	s.t.Helper()
	if _, err := s.dev.saving.Load(f, noProgress); err != nil {
		s.t.Fatal(err)
	}
}

// text puts a text where a command can name it.
func (s *suspended) text(at uint64, text string) (word, size uint64) {
	s.guest.Write(s.arena+wire.Bulk+at, []byte(text))
	return inBulk + at, uint64(len(text))
}

const countingPTX = ".version 8.0\n.target sm_80\n.address_size 64\n" +
	".visible .global .align 4 .u32 counter;\n" +
	".visible .entry f() { .reg .u32 %r; .reg .u64 %a; mov.u64 %a, counter;\n" +
	"ld.global.u32 %r, [%a]; add.u32 %r, %r, 1; st.global.u32 [%a], %r; ret; }\n"

// code is what a program has that counts in a variable of its own.
type code struct{ module, function, counter uint64 }

func (s *suspended) load() (c code) {
	s.t.Helper()
	image, size := s.text(0, countingPTX)
	none := uint64(wire.BufferNone) << 56
	c.module = s.do(gpubackend.OpModuleLoadData, image, size, none, 0, none, 0, none, 0)
	name, size := s.text(0, "f")
	c.function = s.do(gpubackend.OpModuleGetFunction, c.module, name, size)
	name, size = s.text(0, "counter")
	c.counter = s.do(gpubackend.OpModuleGetGlobal, c.module, name, size)
	return c
}

// count launches the kernel, and returns what the variable then has.
func (s *suspended) count(c code, stream uint64) uint32 {
	s.t.Helper()
	s.do(gpubackend.OpLaunchKernel, c.function, stream, 1|1<<32, 1|1<<32, 1|1<<32, 0, 0)
	s.do(gpubackend.OpStreamSynchronize, stream)
	s.do(gpubackend.OpCopyDtoH, c.counter, inBulk, 4, 4, 0, 0)
	b := s.guest.Read(s.arena+wire.Bulk, 4)
	return uint32(b[0]) | uint32(b[1])<<8
}

// pin has the device reach a page of the guest's at an address of its own.
func (s *suspended) pin() (page uint64) {
	s.t.Helper()
	page = s.guest.Alloc(4096, 4096)
	s.add(0, 3, wire.ChainHeader{Type: wire.ChainMap, Id: 6, Bytes: 4096, Address: counterAddress,
		Flags: wire.MapFlagWrite}, wire.Run{Address: page, Bytes: 4096})
	s.do(gpubackend.OpHostRegister, 6, counterAddress, 4096, 0)
	return page
}

// mustReach has the device write there.
func (s *suspended) mustReach(page uint64) {
	s.t.Helper()
	s.guest.Write(page, make([]byte, 8))
	s.do(gpubackend.OpMemsetD8Async, counterAddress, 0x5a, 8, 0)
	s.do(gpubackend.OpCtxSynchronize)
	if b := s.guest.Read(page, 8); string(b) != "ZZZZZZZZ" {
		s.t.Fatalf("the page has %q", b)
	}
}

// TestSavedToAFile: the workers end, and others go on where they stopped, again and again.
func TestSavedToAFile(t *testing.T) {
	s := newSuspended(t)
	for _, size := range []uint64{4096, 100000, 5 << 20, 12 << 20} {
		s.allocate(size)
	}
	c := s.load()
	stream := s.do(gpubackend.OpStreamCreateWithPriority, 1, 0)
	from, to := s.do(gpubackend.OpEventCreate, 0), s.do(gpubackend.OpEventCreate, 0)
	s.do(gpubackend.OpEventRecordWithFlags, from, stream, 0)
	s.count(c, stream)
	s.do(gpubackend.OpEventRecordWithFlags, to, stream, 0)
	s.do(gpubackend.OpStreamSynchronize, stream)
	elapsed := s.do(gpubackend.OpEventElapsed, from, to)
	pool := s.do(gpubackend.OpPoolDefault, 0)
	pooled := s.do(gpubackend.OpMemAllocAsync, 1<<20, pool, stream)
	page := s.pin()
	reserved := uint64(0x400000000000)
	s.do(gpubackend.OpMemAddressReserve, reserved, 2<<20)
	gone, before := s.do(gpubackend.OpEventCreate, 0), uint64(0)
	s.do(gpubackend.OpEventDestroy, gone)
	for n := range uint32(3) {
		f := s.saveTo()
		s.refused(admin.Request{Resume: true}, "give it with --from", suspend.Suspended)
		s.refused(admin.Request{Suspend: true}, "the VM is suspended", suspend.Suspended)
		s.resumeFrom(f)
		s.mustHold()
		s.mustReach(page)
		if got := s.count(c, stream); got != 2+n {
			t.Fatalf("the kernel has counted to %d, not %d", got, 2+n)
		}
		if got := s.do(gpubackend.OpEventElapsed, from, to); got != elapsed {
			t.Fatalf("%d ns between the events, it were %d", got, elapsed)
		}
		// what is new gets what it would have got
		e := s.do(gpubackend.OpEventCreate, 0)
		s.do(gpubackend.OpEventDestroy, e)
		if e>>48 != gone>>48 || e&0xffffff != gone&0xffffff || e <= max(gone, before) {
			t.Fatalf("a new event gets handle %#x, after %#x and %#x", e, gone, before)
		}
		before = e
		s.allocate(1 << 20)
		s.mustHold()
	}
	s.do(gpubackend.OpMemFreeAsync, pooled, stream)
	s.do(gpubackend.OpMemAddressFree, reserved, 2<<20)
	s.do(gpubackend.OpHostUnregister, 6)
	s.reap(1, 1)
	s.mustSuspend()
	s.mustResume()
	s.mustHold()
}

// TestFileTakesNoMemory: device memory goes to a file by way of none of the host's.
func TestFileTakesNoMemory(t *testing.T) {
	s := newSuspended(t, "suspend-memory=1M")
	s.allocate(12 << 20)
	s.resumeFrom(s.saveTo())
	s.mustHold()
	s.refused(admin.Request{Suspend: true}, "suspend-memory", suspend.Running)
}

// noBuffer is given where a command takes bytes and gets none.
const noBuffer = uint64(wire.BufferNone) << 56

// TestNotSaved: what can't be saved is refused with the reason, and nothing is changed.
func TestNotSaved(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	no := errors.New("no")
	linker := s.do(gpubackend.OpLinkCreate, noBuffer, 0, 0, 0)
	s.mustNotSave(nil, "linkers")
	s.do(gpubackend.OpLinkDestroy, linker)
	s.mustNotSave(no, "no")
	for most := range 5 { // a disk that is full sooner or later
		keep := func() error { return nil }
		_, err := s.dev.saving.Save(&fullDisk{most << 20}, false, nil, keep, noProgress)
		if !errors.Is(err, unix.ENOSPC) || s.dev.suspension.State() != suspend.Running {
			t.Fatalf("a full disk: %v, %+v", err, s.dev.suspension.Status())
		}
		s.mustHold()
	}
	s.resumeFrom(s.saveTo()) // now it can be
	s.mustHold()
	for _, op := range []gpubackend.Op{gpubackend.OpDevicePrimaryCtxReset,
		gpubackend.OpDevicePrimaryCtxRetain, gpubackend.OpDevicePrimaryCtxRelease} {
		s.do(op, 0)
	}
	_, err := s.dev.saving.Save(io.Discard, false, nil, func() error { return nil }, noProgress)
	if err == nil || !strings.Contains(err.Error(), "a context that it had reset") {
		t.Fatalf("%v", err)
	}
}

// mustNotSave: the VM isn't saved, for that reason, and goes on. keep is what becomes of the file.
func (s *suspended) mustNotSave(keep error, text string) {
	s.t.Helper()
	_, err := s.dev.saving.Save(io.Discard, false, nil, func() error { return keep }, noProgress)
	if err == nil || !strings.Contains(err.Error(), text) ||
		s.dev.suspension.State() != suspend.Running || s.workers() != 1 {
		s.t.Fatalf("%s: %v, %+v", text, err, s.dev.suspension.Status())
	}
	s.mustHold()
}

// fullDisk takes so many bytes.
type fullDisk struct{ left int }

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, unix.ENOSPC
	}
	return len(p), nil
}

// TestOverTheSocket has an operator's command suspend to a file and resume from it; where the
// command gives up, or is killed, before it has kept the file, the VM goes on.
func TestOverTheSocket(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go s.dev.ServeAdmin(l)
	f, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	no := errors.New("no")
	to, from := admin.Request{Suspend: true, File: true}, admin.Request{Resume: true, File: true}
	written := false
	_, err = admin.AskWithFile(path, to, f, func() error {
		written = s.workers() == 1 // nothing is changed yet
		return no
	}, noProgress)
	if !errors.Is(err, no) || !written {
		t.Fatalf("%v, written %t", err, written)
	}
	for end := time.Now().Add(soon); s.dev.suspension.State() != suspend.Running; {
		if time.Now().After(end) {
			t.Fatalf("%+v", s.dev.suspension.Status())
		}
		time.Sleep(time.Millisecond)
	}
	s.mustHold()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	rewound(t, f)
	a, err := admin.AskWithFile(path, to, f, func() error { return nil }, noProgress)
	if err != nil || a.Moved == nil || s.workers() != 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err = admin.AskWithFile(path, from, f, nil, noProgress); err != nil || a.Moved == nil {
		t.Fatalf("%+v, %v", a, err)
	}
	s.mustHold()
	if _, err := admin.Ask(path, to); err == nil || !strings.Contains(err.Error(), "no file") {
		t.Fatalf("without a file: %v", err)
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := admin.AskWithFile(path, to, null, nil, noProgress); err == nil ||
		!strings.Contains(err.Error(), "regular") {
		t.Fatalf("a device: %v", err)
	}
	s.mustHold()
}

// TestWorkerKilledMeanwhile: a worker that is killed when it is saved costs its program the GPU,
// and nobody else anything. Without another program the VM isn't suspended.
func TestWorkerKilledMeanwhile(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	w := s.worker(0)
	f, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keep := func() error { w.Kill(); <-w.Gone(); return nil }
	_, err = s.dev.saving.Save(f, false, nil, keep, noProgress)
	if err == nil || !strings.Contains(err.Error(), "all programs ended meanwhile") {
		t.Fatal(err)
	}
	s.reap(1, 3) // the program gets its chains back
	x := s.dev.suspension.Status()
	if n := s.workers(); n != 0 || x.State != suspend.Running || x.Saved {
		t.Fatalf("%d workers, %+v", n, x)
	}
	s.closeChannel(0)
	s.program(0)
}

// TestBadFiles are refused with the reason, and the VM stays as it is.
func TestBadFiles(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	old, err := io.ReadAll(rewound(t, s.saveTo()))
	if err != nil {
		t.Fatal(err)
	}
	s.resumeFrom(bytes.NewReader(old))
	s.mustHold()
	f := s.saveTo()
	good, err := io.ReadAll(rewound(t, f))
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(good)
	damaged[len(damaged)/2] ^= 1
	for text, b := range map[string][]byte{
		"cut short": good[:len(good)-1], "damaged": damaged,
		"none of Paracuda's": make([]byte, 4096),
		"suspended last":     old,
	} {
		_, err := s.dev.saving.Load(bytes.NewReader(b), noProgress)
		if err == nil || !strings.Contains(err.Error(), text) || s.workers() != 0 ||
			s.dev.suspension.State() != suspend.Suspended {
			t.Fatalf("%q: %v, %+v", text, err, s.dev.suspension.Status())
		}
	}
	s.resumeFrom(f)
	s.mustHold()
}

func rewound(t *testing.T, f *os.File) *os.File {
	t.Helper()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestProgramEndsMeanwhile: a program that ends while it is in a file gets its chains back, and is
// not made again; and then there is nothing that the file is needed for.
func TestProgramEndsMeanwhile(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	f := s.saveTo()
	s.closeChannel(0)
	s.reap(1, 3)
	if _, err := s.dev.saving.Load(f, noProgress); err == nil {
		t.Fatal("nothing is left of what was saved")
	}
	s.mustResume()
	s.program(0)
}
