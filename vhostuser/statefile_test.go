// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownFD is a descriptor like that of a file, which may be closed.
func ownFD(t *testing.T, fd int) *FD {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return NewFD(dup)
}

// TestStateGoesThrough: what is written arrives as it is, through whatever a front end gives,
// whether the kernel can be asked not to wait or not.
func TestStateGoesThrough(t *testing.T) {
	want := make([]byte, 3<<20+17)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	pipe := func() (r, w int) {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		return fds[0], fds[1]
	}
	pair := func() (r, w int) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fds[0], fds[1]
	}
	for name, open := range map[string]func() (r, w int){"pipe": pipe, "socket": pair} {
		for _, small := range []bool{false, true} {
			r, w := open()
			f := &stateFile{fd: ownFD(t, w), quit: make(chan struct{}), timeout: time.Minute,
				small: small}
			_ = unix.Close(w)
			ended := make(chan error, 1)
			go func() {
				_, err := f.Write(want)
				ended <- err
				_ = f.fd.Close()
			}()
			from := os.NewFile(uintptr(r), name)
			got, err := io.ReadAll(from)
			_ = from.Close()
			if err != nil || <-ended != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, small %t: %d bytes, %v", name, small, len(got), err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "state")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &stateFile{fd: ownFD(t, int(file.Fd())), timeout: time.Minute}
	_ = file.Close()
	_, err = f.Write(want)
	_ = f.fd.Close()
	if got, _ := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("a file: %d bytes, %v", len(got), err)
	}
}

// TestStateIsWrittenInLargePieces, where the kernel can be asked for a write that doesn't wait: as
// much as a pipe has room for.
func TestStateIsWrittenInLargePieces(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	f := &stateFile{fd: NewFD(fds[1])}
	defer f.fd.Close()
	n, err := f.put(make([]byte, 1<<20))
	if f.small {
		t.Skip("this kernel has no writes to pipes that don't wait: Linux 6.5 does")
	}
	if room, _ := unix.FcntlInt(uintptr(fds[0]), unix.F_GETPIPE_SZ, 0); n != room || err != nil {
		t.Errorf("%d bytes at once, of %d: %v", n, room, err)
	}
}

// BenchmarkStateThroughAPipe writes a MiB, with the small pieces and with the large ones.
func BenchmarkStateThroughAPipe(b *testing.B) {
	for name, small := range map[string]bool{"small": true, "large": false} {
		b.Run(name, func(b *testing.B) {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			dup, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			_ = w.Close()
			f := &stateFile{fd: NewFD(dup), timeout: time.Minute, small: small}
			go func() { _, _ = io.Copy(io.Discard, r) }()
			piece := make([]byte, 1<<20)
			b.SetBytes(int64(len(piece)))
			for b.Loop() {
				if _, err := f.Write(piece); err != nil {
					b.Fatal(err)
				}
			}
			_ = f.fd.Close()
		})
	}
}
