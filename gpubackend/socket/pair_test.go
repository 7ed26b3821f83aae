// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestKinds: packets stay apart and bytes don't, only a non-blocking end doesn't wait, and no child
// inherits an end.
func TestKinds(t *testing.T) {
	for name, tt := range map[string]struct {
		kind  Kind
		reads int // of two messages of 2 bytes
		waits bool
	}{
		"a stream": {Stream, 4, true}, "packets": {Packets, 2, true},
		"a stream that doesn't wait": {Stream | NonBlocking, 4, false},
		"packets that don't wait":    {Packets | NonBlocking, 2, false},
	} {
		near, far, err := Descriptors(tt.kind)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := unix.Write(near, []byte("ab")); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := unix.Read(far, make([]byte, 9)); n != tt.reads || err != nil {
			t.Errorf("%s: read %d bytes, %v, want %d", name, n, err, tt.reads)
		}
		for _, fd := range []int{near, far} {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if err != nil || flags&unix.O_NONBLOCK == 0 != tt.waits {
				t.Errorf("%s: flags %#x, %v", name, flags, err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil ||
				flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: a child inherits it: %#x, %v", name, flags, err)
			}
			_ = unix.Close(fd)
		}
	}
}

// TestConnect passes a message each way.
func TestConnect(t *testing.T) {
	near, far, err := Connect(Packets)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	var b [9]byte
	if _, err := near.Write([]byte("there")); err != nil {
		t.Fatal(err)
	}
	if n, err := far.Read(b[:]); err != nil || string(b[:n]) != "there" {
		t.Errorf("%q, %v", b[:n], err)
	}
	if _, err := far.Write([]byte("back")); err != nil {
		t.Fatal(err)
	}
	if n, err := near.Read(b[:]); err != nil || string(b[:n]) != "back" {
		t.Errorf("%q, %v", b[:n], err)
	}
}
