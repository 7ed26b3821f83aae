// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRecordThatCannotBeWritten: nothing could be noted in it.
func TestRecordThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := Shape{Queues: 1, Size: 8}
	_, own := region(t, s)
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", own), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if r, err := Open(fd, 0, s.Bytes(), s); r != nil || !errors.Is(err, ErrRegion) ||
		!errors.Is(err, unix.EACCES) {
		t.Errorf("Open = %v, %v", r, err)
	}
}

// TestNoDescriptorForARecord: none is made.
func TestNoDescriptorForARecord(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	fd, err := Create(Shape{Queues: 1, Size: 8})
	if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); again != nil {
		t.Fatal(again)
	}
	if fd != -1 || !errors.Is(err, unix.EMFILE) {
		t.Errorf("Create = %d, %v", fd, err)
	}
}
