// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatBoundsAMapping: what threads reach of a mapped file whose descriptor they don't have.
// One thread can have descriptors of its own. The whole process has what that thread maps, but no
// other thread can map the file. But where mremap isn't forbidden, any thread can make the mapping
// longer, and so reach what is behind it in the file. The threat model says what of this a worker
// could have.
func TestWhatBoundsAMapping(t *testing.T) {
	page := os.Getpagesize()
	const private = 1000 // a number that nothing else has
	var mapped []byte
	begun, end := make(chan error), make(chan struct{})
	go onOwnThread(func() {
		begun <- func() (err error) {
			if err := unix.Unshare(unix.CLONE_FILES); err != nil {
				return err
			}
			low, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
			if err != nil {
				return err
			}
			fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, private)
			if err != nil {
				return err
			}
			for i := range 2 {
				if _, err := unix.Pwrite(fd, []byte{byte(1 + i)}, int64(i*page)); err != nil {
					return err
				}
			}
			mapped, err = unix.Mmap(fd, 0, page, unix.PROT_READ, unix.MAP_SHARED)
			return err
		}()
		<-end
	})
	defer close(end)
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	if mapped[0] != 1 {
		t.Errorf("the other threads see %d", mapped[0])
	}
	if _, err := unix.FcntlInt(private, unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("another thread has the descriptor: %v", err)
	}
	longer, err := unix.Mremap(mapped, page+1, unix.MREMAP_MAYMOVE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(longer); err != nil {
			t.Error(err)
		}
	}()
	if longer[page] != 2 {
		t.Errorf("behind the mapping is %d", longer[page])
	}
}
