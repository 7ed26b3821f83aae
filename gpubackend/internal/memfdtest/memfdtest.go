// SPDX-License-Identifier: Apache-2.0

// Package memfdtest makes the files that a hostile process may send where sealed memory of one size
// is wanted. It is for tests of code that takes such memory over.
package memfdtest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Hostile makes descriptors that must be refused where memory of size bytes with these seals is
// wanted. The code under test closes them.
func Hostile(t testing.TB, size int64, seals int) map[string]int {
	t.Helper()
	return map[string]int{
		"not sealed": memory(t, size, 0),
		"may shrink": memory(t, size, unix.F_SEAL_GROW),
		"short":      memory(t, 8, seals),
		"long":       memory(t, 2*size, seals),
		"a file":     file(t),
	}
}

func memory(t testing.TB, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return fd
}

func file(t testing.TB) int {
	t.Helper()
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	fd, err := unix.Dup(int(plain.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
