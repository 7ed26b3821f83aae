// SPDX-License-Identifier: Apache-2.0

package memfd

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestSealed(t *testing.T) {
	fd, err := New("test", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if !Sealed(fd, 8192) || !Sealed(fd, 1) || Sealed(fd, 8193) {
		t.Error("the size isn't told")
	}
	for _, size := range []int64{4096, 16384} {
		if err := unix.Ftruncate(fd, size); err == nil {
			t.Errorf("its size became %d", size)
		}
	}
	if err := Check(fd, 8192); err != nil {
		t.Error(err)
	}
	if Check(fd, 4096) == nil || Check(fd, 16384) == nil {
		t.Error("a file of another size passes")
	}
	open, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(open)
	if err := unix.Ftruncate(open, 8192); err != nil {
		t.Fatal(err)
	}
	if Sealed(open, 1) || Sealed(-1, 1) {
		t.Error("a file that may shrink, or none, passes")
	}
	if Check(open, 8192) == nil || Check(-1, 8192) == nil {
		t.Error("a file that may shrink, or none, is found to be in order")
	}
	if _, err := unix.FcntlInt(uintptr(open), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	if Sealed(open, 1) || Check(open, 8192) == nil {
		t.Error("a file that may grow passes")
	}
}
