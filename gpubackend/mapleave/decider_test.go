// SPDX-License-Identifier: Apache-2.0

package mapleave

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/mapleave/mapleavetest"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// TestDecisions: another process decides on each mapping by what the registers say, and gives the
// file only then, under its number.
func TestDecisions(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, func(m Mapping) bool { return m.Offset >= pageSize && !m.Writable })
	g, ended := serve(t, a.Listener, r)
	high := uintptr(1) << 32
	for _, x := range []struct {
		name  string
		call  mapleavetest.Attempt
		found byte
		why   error // nil: it is allowed
	}{
		{"a page", attempt(pageSize, toRead, shared, asked, pageSize), 1, nil},
		{"the same", attempt(pageSize, toRead, shared, asked, pageSize), 1, nil},
		{"the rest", attempt(3*pageSize, toRead, shared, asked, pageSize), 1, nil},
		{"of another file", attempt(1, toRead, shared, asked+1, 2*pageSize), 12, nil},
		{"room isn't taken", attempt(1, toRead, shared|unix.MAP_NORESERVE, asked, 3*pageSize),
			3, nil},
		{"rights", attempt(pageSize, toRead, shared|7*high, asked|high, pageSize), 1, nil},
		{"all rights", attempt(pageSize, toRead, shared|^(high-1), asked|^(high-1), pageSize), 1,
			nil},
		{"another page", attempt(pageSize, toRead, shared, asked, 0), 0, errNot},
		{"to write", attempt(pageSize, toWrite, shared, asked, pageSize), 0, errNot},
		{"a file that isn't", attempt(pageSize, toRead, shared, asked+2, 0), 0, errNot},
		{"a file that can't be", attempt(pageSize, toRead, shared, 1<<32-2, 0), 0, errNot},
		{"a copy", attempt(pageSize, toRead, unix.MAP_PRIVATE, asked, pageSize), 0, errKind},
		{"checked", attempt(pageSize, toRead, unix.MAP_SHARED_VALIDATE, asked, pageSize), 0,
			errKind},
		{"huge pages", attempt(pageSize, toRead, shared|unix.MAP_HUGETLB, asked, pageSize), 0,
			errKind},
		{"code", attempt(pageSize, unix.PROT_EXEC, shared, asked, pageSize), 0, errKind},
		{"between pages", attempt(pageSize, toRead, shared, asked, pageSize+1), 0, errRange},
		{"nothing", attempt(0, toRead, shared, asked, pageSize), 0, errRange},
		{"a length that wraps", attempt(^uintptr(0), toRead, shared, asked, pageSize), 0, errRange},
		{"an offset that wraps", attempt(pageSize, toRead, shared, asked,
			^uintptr(0)&^(pageSize-1)), 0, errRange},
	} {
		got := <-a.Try(x.call)
		_, refused := r.said()
		switch {
		case x.why == nil:
			if got.Err != nil || got.Found != x.found || refused != nil {
				t.Errorf("%s: found %d, %v; refused: %v", x.name, got.Found, got.Err, refused)
			}
		case !errors.Is(got.Err, unix.EACCES) || len(refused) != 1 ||
			!errors.Is(refused[0], x.why):
			t.Errorf("%s: %v; refused: %v", x.name, got.Err, refused)
		}
	}
	for number := range r.files {
		if err := unix.Close(int(number)); err != nil {
			t.Errorf("number %d: %v", number, err)
		}
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
	g.Close()
}

// TestWhatIsAllowedStays: a file that ceases to be the guest's memory while it is decided on a
// mapping of it is taken back with the next call.
func TestWhatIsAllowedStays(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, nil)
	r.may = func(m Mapping) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.gone = map[uint32]bool{asked: true}
		return true
	}
	g, ended := serve(t, a.Listener, r)
	page := attempt(pageSize, toRead, shared, asked, pageSize)
	if got := <-a.Try(page); got.Err != nil || got.Found != 1 {
		t.Errorf("it was allowed: found %d, %v", got.Found, got.Err)
	}
	page.FD++
	if got := <-a.Try(page); got.Err != nil || got.Found != 11 {
		t.Errorf("another file: found %d, %v", got.Found, got.Err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(asked, &st); err != nil || st.Size != 0 {
		t.Errorf("it has %d bytes of what is gone, %v", st.Size, err)
	}
	for n := range 2 {
		if err := unix.Close(asked + n); err != nil {
			t.Error(err)
		}
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
	g.Close()
}

// TestRights: by what right it maps, as the caller says, is what the policy gets.
func TestRights(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, func(m Mapping) bool { return m.Number == asked })
	g, ended := serve(t, a.Listener, r)
	for _, right := range []guestmem.Right{0, 1, 1 << 31, 1 << 32, 1<<63 | 1<<40 | 5,
		1<<64 - 1} {
		for write, prot := range map[bool]int{false: toRead, true: toWrite} {
			run := guestmem.Run{FD: asked, ReadFD: asked, Right: right}
			p, fd, flags := run.File(write)
			got := <-a.Try(attempt(pageSize, uintptr(p), uintptr(flags), uintptr(fd), 0))
			saw, _ := r.said()
			want := Mapping{asked, 0, pageSize, write, right}
			if got.Err != nil || p != prot || len(saw) != 1 || saw[0] != want {
				t.Errorf("%#x, to write: %t: %v, %+v", right, write, got.Err, saw)
			}
		}
	}
	run := guestmem.Run{FD: asked, ReadFD: 5, Right: 1<<32 | 1}
	if _, fd, _ := run.File(false); uint32(fd) != 5 {
		t.Errorf("to read only it is mapped from %#x", fd)
	}
	if err := unix.Close(asked); err != nil {
		t.Error(err)
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
	g.Close()
}

// TestTheRestAsksNobody: what has no such number is mapped without anybody.
func TestTheRestAsksNobody(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, nil)
	got := <-a.Try(attempt(pageSize, toRead, shared, uintptr(r.files[asked]), 0))
	if got.Err != nil {
		t.Error(got.Err)
	}
}

// TestAnotherGoesOn: while nobody decides, calls wait. One that was received, and not answered, is
// made again when its thread gets a signal.
func TestAnotherGoesOn(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, func(Mapping) bool { return true })
	page := attempt(pageSize, toRead, shared, asked, 2*pageSize)
	first, ended := serve(t, a.Listener, r)
	if got := <-a.Try(page); got.Err != nil {
		t.Fatal(got.Err)
	}
	if first.Close(); <-ended != nil {
		t.Error("it is closed")
	}
	waits := a.Try(page)
	var call notified
	err := request(a.Listener, unix.SECCOMP_IOCTL_NOTIF_RECV, &call)
	if err != nil {
		t.Fatal(err)
	}
	second, ended := serve(t, a.Listener, r)
	defer second.Close()
	if err := unix.Tgkill(os.Getpid(), a.TID, unix.SIGURG); err != nil {
		t.Fatal(err)
	}
	if got := <-waits; got.Err != nil || got.Found != 2 {
		t.Errorf("found %d, %v", got.Found, got.Err)
	}
	if saw, _ := r.said(); len(saw) != 2 {
		t.Errorf("decided on %v", saw)
	}
	if err := unix.Close(asked); err != nil {
		t.Error(err)
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
}

// TestTakenBack: with the next decision nobody has a file any more that isn't the guest's memory.
func TestTakenBack(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, func(Mapping) bool { return true })
	g, ended := serve(t, a.Listener, r)
	defer g.Close()
	for i := range uintptr(2) {
		if got := <-a.Try(attempt(pageSize, toRead, shared, asked+i, 0)); got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	size := func(number int) int64 {
		var st unix.Stat_t
		if err := unix.Fstat(number, &st); err != nil {
			t.Error(err)
		}
		return st.Size
	}
	if size(asked) != 4*pageSize || size(asked+1) != 4*pageSize {
		t.Error("it doesn't have the files")
	}
	r.mu.Lock()
	r.gone = map[uint32]bool{asked: true}
	r.mu.Unlock()
	got := <-a.Try(attempt(pageSize, toRead, shared, asked+1, pageSize))
	if got.Err != nil || got.Found != 11 {
		t.Errorf("found %d, %v", got.Found, got.Err)
	}
	if size(asked) != 0 || size(asked+1) != 4*pageSize {
		t.Error("it still has the file that is gone, or has lost the other one")
	}
	for i := range 2 {
		if err := unix.Close(asked + i); err != nil {
			t.Error(err)
		}
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
}

// TestOneThatVanishes: a thread that ends while somebody decides harms nobody.
func TestOneThatVanishes(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, func(Mapping) bool { return true })
	decides, goOn := make(chan struct{}), make(chan struct{})
	r.may = func(Mapping) bool {
		decides <- struct{}{}
		<-goOn
		return true
	}
	g, ended := serve(t, a.Listener, r)
	defer g.Close()
	waits := a.Try(attempt(pageSize, toRead, shared, asked, 0))
	<-decides
	// The call is made again, and is another one then.
	if err := unix.Tgkill(os.Getpid(), a.TID, unix.SIGURG); err != nil {
		t.Fatal(err)
	}
	for p := []unix.PollFd{{Fd: int32(a.Listener), Events: unix.POLLIN}}; ; {
		if n, err := unix.Poll(p, -1); n == 1 && err == nil {
			break
		}
	}
	goOn <- struct{}{}
	<-decides
	goOn <- struct{}{}
	if got := <-waits; got.Err != nil {
		t.Error(got.Err)
	}
	if err := unix.Close(asked); err != nil {
		t.Error(err)
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
}

// TestUnheardOf: calls are decided on, and the end is seen, if the Go runtime doesn't wait for
// them.
func TestUnheardOf(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newRAM(t, func(m Mapping) bool { return m.Offset == 0 })
	fd, err := unix.FcntlInt(uintptr(a.Listener), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(fd, r, r.refuse)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Serve() }()
	for i := range 20 {
		got := <-a.Try(attempt(pageSize, toRead, shared, asked, uintptr(i%2*pageSize)))
		if (got.Err == nil) != (i%2 == 0) {
			t.Errorf("call %d: %v", i, got.Err)
		}
	}
	if err := unix.Close(asked); err != nil {
		t.Error(err)
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
}

// TestNoListener: another file is refused, and closed.
func TestNoListener(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := New(fd, nil, nil); g != nil || !errors.Is(err, ErrKernel) {
		t.Errorf("%v, %v", g, err)
	}
}

func FuzzMappingOf(f *testing.F) {
	f.Add(uint64(pageSize), uint64(toRead), uint64(shared), uint64(asked), uint64(0))
	f.Fuzz(func(t *testing.T, length, prot, flags, fd, offset uint64) {
		call := &notified{call: unix.SYS_MMAP, arch: unix.AUDIT_ARCH_X86_64,
			arguments: [6]uint64{1: length, prot, flags, fd, offset}}
		m, err := mappingOf(call)
		if err != nil {
			return
		}
		if m.Length == 0 || m.Length < length || m.Length%pageSize != 0 || m.Offset != offset ||
			m.Offset+m.Length < m.Offset || m.Writable != (prot&unix.PROT_WRITE != 0) ||
			uint64(m.Number) != fd&(1<<32-1) || flags&unix.MAP_SHARED == 0 {
			t.Errorf("%+v of %#x, %#x, %#x, %#x, %#x", m, length, prot, flags, fd, offset)
		}
	})
}

// BenchmarkMapping is how long it takes to map a page and unmap it: with leave, and from a
// file of one's own.
func BenchmarkMapping(b *testing.B) {
	a := mapleavetest.New(b)
	defer unix.Close(a.Listener)
	r := newRAM(b, func(Mapping) bool { return true })
	g, ended := serve(b, a.Listener, r)
	defer g.Close()
	for _, x := range []struct {
		name string
		fd   uintptr
	}{{"asked", asked}, {"own", uintptr(r.files[asked])}} {
		b.Run(x.name, func(b *testing.B) {
			if got := <-a.Repeat(attempt(pageSize, toRead, shared, x.fd, 0), b.N); got.Err != nil {
				b.Fatal(got.Err)
			}
		})
	}
	_ = unix.Close(asked)
	a.End()
	<-ended
}
