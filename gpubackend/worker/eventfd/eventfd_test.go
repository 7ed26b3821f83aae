// SPDX-License-Identifier: Apache-2.0

package eventfd

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// TestCounter: however often it was notified, a counter is drained once; and nobody waits for one
// that is full or empty.
func TestCounter(t *testing.T) {
	fd, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	set := func() bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	if set() {
		t.Error("set when it is new")
	}
	for range 3 {
		Notify(fd)
	}
	if !set() {
		t.Error("not set when it was notified")
	}
	Drain(fd)
	full := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if _, err := unix.Write(fd, full); err != nil {
		t.Fatal(err)
	}
	Notify(fd) // doesn't block
	if !set() {
		t.Error("not set when it is full")
	}
	Drain(fd)
	if set() {
		t.Error("set when it was drained")
	}
	Drain(fd) // doesn't block
}
