// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFDOwnership(t *testing.T) {
	t.Parallel()
	n, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFD(n)
	g, err := f.Dup()
	if err != nil {
		t.Fatal(err)
	}
	if f.Int() != n || g.Int() == n {
		t.Errorf("descriptors %d and %d, want %d and another", f.Int(), g.Int(), n)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil || f.Int() != -1 {
		t.Errorf("Close twice: %v, descriptor %d", err, f.Int())
	}
	if _, err := f.Disown(); !errors.Is(err, ErrFDClosed) {
		t.Errorf("Disown after Close: %v", err)
	}
	if _, err := f.Dup(); err == nil {
		t.Error("Dup after Close succeeded")
	}
	if n, err := g.Disown(); err != nil || unix.Close(n) != nil {
		t.Errorf("Disown = %d, %v", n, err)
	}
	var none *FD
	if none.Int() != -1 || none.Close() != nil {
		t.Error("a nil FD isn't a closed one")
	}
}

func TestSignalAndDrain(t *testing.T) {
	t.Parallel()
	n, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFD(n)
	defer f.Close()
	if ok, err := f.Drain(); ok || err != nil {
		t.Errorf("Drain of nothing = %v, %v", ok, err)
	}
	if err := errors.Join(f.Signal(), f.Signal()); err != nil {
		t.Fatal(err)
	}
	within(t, "a signal", func() {
		for ok := false; !ok; {
			if ok, err = f.Drain(); err != nil {
				t.Fatalf("Drain: %v", err)
			}
		}
	})
	// A counter at its end must not harm the one who signals.
	full := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	// the other signal came later
	if _, err := unix.Write(n, full); err != nil && err != unix.EAGAIN {
		t.Fatal(err)
	}
	if err := f.Signal(); err != nil {
		t.Errorf("Signal of a full counter: %v", err)
	}
	if err := NewFD(-1).Signal(); err == nil {
		t.Error("Signal of nothing succeeded")
	}
	if _, err := NewFD(-1).Drain(); err == nil {
		t.Error("Drain of nothing succeeded")
	}
}

// blocking makes the file behind a descriptor one that waits, as its front end can at any time.
func blocking(t *testing.T, fd int) {
	t.Helper()
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

// within fails the test if f takes long.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s waits", what)
	}
}

// carriers are the files that carry signals: one end for the device, the other for the front end.
func carriers(t *testing.T) map[string][2]int {
	t.Helper()
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, fd := range []int{event, pair[1]} {
			_ = unix.Close(fd)
		}
	})
	own, err := unix.FcntlInt(uintptr(event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][2]int{"eventfd": {own, event}, "socket": {pair[0], pair[1]}}
}

// TestBlockingDescriptors: nothing waits for what a front end does with its file.
func TestBlockingDescriptors(t *testing.T) {
	t.Parallel()
	for name, fds := range carriers(t) {
		f := NewFD(fds[0])
		if err := prepareEvent(f); err != nil {
			t.Fatal(err)
		}
		blocking(t, fds[0])
		within(t, name+": Drain", func() {
			if ok, err := f.Drain(); ok || err != nil {
				t.Errorf("%s: Drain of nothing = %v, %v", name, ok, err)
			}
		})
		if name == "eventfd" { // which is full
			_, _ = unix.Write(fds[1], []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		}
		within(t, name+": Signal", func() {
			for range 10000 { // of a socket, more than it holds
				if err := f.Signal(); err != nil {
					t.Fatal(err)
				}
			}
		})
		within(t, name+": Close", func() { _ = f.Close() })
	}
}

// TestEverySignalArrives: the one that follows another at once, too.
func TestEverySignalArrives(t *testing.T) {
	t.Parallel()
	for name, fds := range carriers(t) {
		f := NewFD(fds[0])
		if err := prepareEvent(f); err != nil {
			t.Fatal(err)
		}
		own, err := unix.FcntlInt(uintptr(fds[1]), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		waiter, err := NewFD(own).Waiter()
		if err != nil {
			t.Fatal(err)
		}
		blocking(t, fds[0])
		blocking(t, fds[1])
		within(t, name, func() {
			for range 1000 {
				if err := errors.Join(f.Signal(), waiter.Wait()); err != nil {
					t.Fatal(err)
				}
			}
		})
		ended := make(chan error)
		go func() {
			for {
				if err := waiter.Wait(); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(10 * time.Millisecond)
		within(t, name+": Close", func() { _ = waiter.Close(); <-ended })
		_ = f.Close()
	}
}

// TestSignalWithoutDescriptors: a signal that would wait needs a descriptor; when there is none it
// fails, and the next one works.
func TestSignalWithoutDescriptors(t *testing.T) {
	all := carriers(t)
	if err := unix.Close(all["socket"][0]); err != nil {
		t.Fatal(err)
	}
	f := NewFD(all["eventfd"][0])
	defer f.Close()
	blocking(t, f.Int())
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	err := f.Signal()
	if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); again != nil {
		t.Fatal(again)
	}
	if err == nil {
		t.Error("Signal succeeded")
	}
	if err := f.Signal(); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// TestNoMoreSignals: whoever waits learns that none will come.
func TestNoMoreSignals(t *testing.T) {
	t.Parallel()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	f := NewFD(p[0])
	w, err := f.Waiter()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := f.Waiter(); !errors.Is(err, ErrFDClosed) {
		t.Errorf("a second waiter: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- w.Wait() }()
	if err := unix.Close(p[1]); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
}
