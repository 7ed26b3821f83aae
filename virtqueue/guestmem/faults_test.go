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

// TestPieceThatCannotBeMapped: some kernels unmap a piece before they refuse to map it to be
// written. Nobody else is given its addresses, and it can be read again.
func TestPieceThatCannotBeMapped(t *testing.T) {
	t.Parallel()
	fd := vt.MemFD(t, 2*page)
	m := newSparse(t, guestmem.Region{Size: 2 * page, FD: fd})
	first, err := m.Slice(0, page)
	if err != nil {
		t.Fatal(err)
	}
	piece := guestmem.Addr(first) + page
	got := make([]byte, 4)
	if err := errors.Join(writeOnce(m)([]byte("text"), page), m.Read(got, page)); err != nil {
		t.Fatal(err)
	}
	const seal = unix.F_SEAL_FUTURE_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seal); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := m.Write([]byte("else"), page); !errors.Is(err, unix.EPERM) {
			t.Errorf("written to a sealed file: %v", err)
		}
		if _, _, err := unix.Syscall6(unix.SYS_MMAP, piece, page, unix.PROT_NONE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0),
			0); err != unix.EEXIST {
			t.Errorf("somebody else may have the addresses: %v", err)
		}
		if err := m.Read(got, page); err != nil || string(got) != "text" {
			t.Errorf("read %q, %v", got, err)
		}
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
