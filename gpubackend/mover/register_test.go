// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPopulate maps more than its file has: what is there is brought in, all of it, and what isn't
// does no harm.
func TestPopulate(t *testing.T) {
	const have, mapped = 5<<20 + 4096, 8 << 20
	fd, err := unix.MemfdCreate("populate", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, have); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(fd, 0, mapped, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	if n := pagesOf(t, fd); n != 0 {
		t.Fatalf("%d pages before", n)
	}
	populate(b)
	if n, want := pagesOf(t, fd), int64(have/os.Getpagesize()); n != want {
		t.Errorf("%d pages, want %d", n, want)
	}
	populate(nil)
}

// pagesOf says how many pages a file has.
func pagesOf(t *testing.T, fd int) int64 {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		t.Fatal(err)
	}
	return s.Blocks * 512 / int64(os.Getpagesize())
}
