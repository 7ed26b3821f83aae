// SPDX-License-Identifier: Apache-2.0

package guestmem_test

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// TestMemoryThatCannotBeMapped: a file that can't be written isn't mapped to be read alone, and the
// regions that were mapped before it are given back.
func TestMemoryThatCannotBeMapped(t *testing.T) {
	t.Parallel()
	good := vt.MemFD(t, page)
	path := fmt.Sprintf("/proc/self/fd/%d", good)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	m, err := guestmem.New([]guestmem.Region{
		{GuestAddr: 0, Size: page, FD: good}, {GuestAddr: page, Size: page, FD: fd},
	})
	if m != nil || !errors.Is(err, unix.EACCES) {
		t.Errorf("New = %v, %v", m, err)
	}
}

// TestNoDescriptorForMemory: it is refused, and mapped when there is one again.
func TestNoDescriptorForMemory(t *testing.T) {
	regions := []guestmem.Region{{Size: page, FD: vt.MemFD(t, page)}}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	m, err := guestmem.New(regions)
	if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); again != nil {
		t.Fatal(again)
	}
	if m != nil || err == nil {
		t.Errorf("New = %v, %v", m, err)
	}
	if m, err = guestmem.New(regions); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
