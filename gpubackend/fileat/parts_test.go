// SPDX-License-Identifier: Apache-2.0

package fileat

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// unnamed is a file without a name in a directory.
func unnamed(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		t.Skipf("no files without names in %s: %v", dir, err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// lists are lists of parts around the bounds of pages and chunks.
func lists() (all [][][]byte) {
	r := rand.NewChaCha8([32]byte{1})
	for _, sizes := range [][]int{{}, {1}, {0, 5}, {chunkBytes, 4, chunkBytes, 4, 3},
		{9*chunkBytes + 1}, {1, 8 * chunkBytes, 4095, 4097}, {chunkBytes, 4, chunkBytes, 4,
			chunkBytes, 4, chunkBytes, 4, 77, 4}} {
		var list [][]byte
		for _, n := range sizes {
			b := make([]byte, n)
			_, _ = r.Read(b)
			list = append(list, b)
		}
		all = append(all, list)
	}
	return all
}

// TestParts: parts come to where they belong, in files in memory and others, what was before them
// stays, and the file ends behind them. Reading gives the same.
func TestParts(t *testing.T) {
	for _, dir := range []string{"/dev/shm", t.TempDir()} {
		for _, at := range []int64{0, 3, 4096, 5000} {
			for i, list := range lists() {
				f := unnamed(t, dir)
				fd := int(f.Fd())
				want := bytes.Repeat([]byte{0xaa}, int(at))
				if _, err := Write(fd, want, 0); err != nil {
					t.Fatal(err)
				}
				want = append(want, bytes.Join(list, nil)...)
				n, err := WriteParts(fd, list, at)
				if err != nil || int64(n) != int64(len(want))-at {
					t.Fatalf("%s, list %d at %d: %d bytes, %v", dir, i, at, n, err)
				}
				got := make([]byte, len(want)+1)
				n, _ = f.ReadAt(got, 0)
				if !bytes.Equal(got[:n], want) {
					t.Errorf("%s, list %d at %d: other content", dir, i, at)
				}
				var again [][]byte
				for _, b := range list {
					again = append(again, make([]byte, len(b)))
				}
				err = ReadParts(again, at, func(b []byte, at int64) error {
					return Read(fd, b, at)
				})
				if err != nil || !bytes.Equal(bytes.Join(again, nil), want[at:]) {
					t.Errorf("%s, list %d at %d: read as another, %v", dir, i, at, err)
				}
				f.Close()
			}
		}
	}
}

// TestFillSame: a mapping is filled as writes would fill the file. WriteParts does that only where
// there are several processors, the test everywhere.
func TestFillSame(t *testing.T) {
	list := [][]byte{bytes.Repeat([]byte{1}, 3*chunkBytes), {2, 3}, bytes.Repeat([]byte{4}, 9000)}
	f := unnamed(t, "/dev/shm")
	fd := int(f.Fd())
	if !inMemory(fd) {
		t.Skip("/dev/shm isn't tmpfs")
	}
	want := bytes.Join(list, nil)
	if err := fill(fd, list, 7, len(want)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want)+8)
	n, _ := f.ReadAt(got, 0)
	if !bytes.Equal(got[:n], append(make([]byte, 7), want...)) {
		t.Errorf("%d bytes, other content", n)
	}
}

// TestFileCutOff: a file that is cut off while a mapping of it is filled is an error, and no fault
// that ends the process.
func TestFileCutOff(t *testing.T) {
	f := unnamed(t, "/dev/shm")
	fd := int(f.Fd())
	if err := unix.Ftruncate(fd, 2*chunkBytes); err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(fd, 0, 2*chunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	if err := unix.Ftruncate(fd, chunkBytes); err != nil {
		t.Fatal(err)
	}
	list := [][]byte{make([]byte, chunkBytes)}
	for i, chunk := range [][]byte{m[:chunkBytes], m[chunkBytes:]} {
		made, copied := makePages(chunk), copyParts(chunk, list, 0)
		if gone := i == 1; (made != nil) != gone || errors.Is(copied, errGone) != gone {
			t.Errorf("chunk %d: %v, %v", i, made, copied)
		}
	}
}

// TestFullMemory: to write more than a file system in memory has room for is an error, as in any
// other.
func TestFullMemory(t *testing.T) {
	f := unnamed(t, smallMemory(t, "4m"))
	fd := int(f.Fd())
	list := [][]byte{make([]byte, 3<<20), make([]byte, 3<<20)}
	if err := fill(fd, list[:1], 0, 3<<20); err != nil || !inMemory(fd) {
		t.Errorf("what has room: %v", err)
	}
	if err := fill(fd, list, 0, 6<<20); err == nil {
		t.Error("what has no room was filled")
	}
	n, err := WriteParts(fd, list, 0)
	if !errors.Is(err, unix.ENOSPC) || n > 4<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// smallMemory is a file system of a size, in memory, that is gone when nobody uses it.
func smallMemory(t *testing.T, size string) (dir string) {
	t.Helper()
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Skipf("no file system can be made: %v", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "size", size); err != nil {
		t.Fatal(err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		t.Fatal(err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(mount) })
	return fmt.Sprintf("/proc/self/fd/%d", mount)
}
