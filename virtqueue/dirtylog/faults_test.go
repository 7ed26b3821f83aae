// SPDX-License-Identifier: Apache-2.0

package dirtylog

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileThatCannotBeWritten: a log in it would lose every page.
func TestFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	path := fmt.Sprintf("/proc/self/fd/%d", memFD(t, 4096))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if l, err := Open(fd, 0, 4096); l != nil || !errors.Is(err, ErrLog) ||
		!errors.Is(err, unix.EACCES) {
		t.Errorf("Open = %v, %v", l, err)
	}
}

// TestNoDescriptorForALog: it is refused, and opened when there is one again.
func TestNoDescriptorForALog(t *testing.T) {
	fd := memFD(t, 4096)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(fd, 0, 4096)
	if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); again != nil {
		t.Fatal(again)
	}
	if l != nil || !errors.Is(err, ErrLog) {
		t.Errorf("Open = %v, %v", l, err)
	}
	open(t, fd, 0, 4096)
}

// TestSameLogElsewhere: what FD, Offset and Size say opens the same bits in another process.
func TestSameLogElsewhere(t *testing.T) {
	t.Parallel()
	l := open(t, memFD(t, 16384), 8192, 64)
	other := open(t, l.FD(), l.Offset(), l.Size())
	other.Mark(3<<pageShift, 1)
	l.Mark(9<<pageShift, 1)
	if got := contents(t, l.FD(), 8192, 2); got[0] != 1<<3 || got[1] != 1<<1 {
		t.Errorf("the log says %#b", got)
	}
}
