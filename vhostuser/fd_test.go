// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"testing"

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
	if ok, err := f.Drain(); !ok || err != nil {
		t.Errorf("Drain = %v, %v", ok, err)
	}
	// A counter at its end must not harm the one who signals.
	if _, err := unix.Write(n, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}); err != nil {
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
