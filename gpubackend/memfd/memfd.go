// SPDX-License-Identifier: Apache-2.0

// Package memfd makes memory files to share with other processes, and checks those of others. Their
// size is sealed, so that nobody can take away what another process has mapped.
package memfd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// New makes memory to share with other processes: its size can't change.
func New(name string, size uint64) (int, error) {
	fd, err := unix.MemfdCreate(name, makeFlags)
	if err != nil {
		return -1, fmt.Errorf("create %s: %w", name, err)
	}
	return fix(fd, name, size)
}

// fix gives a new file its size for good. If that fails the file is closed.
func fix(fd int, name string, size uint64) (int, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("size %s: %w", name, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("seal %s: %w", name, err)
	}
	return fd, nil
}

// Discard gives the memory of a file back to the system: its bytes are 0 from then on.
func Discard(fd int, bytes uint64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(bytes))
}

// Check says why a file isn't memory of exactly that size, for good.
func Check(fd int, bytes int64) error {
	const size = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&size != size {
		return errors.New("its memory isn't sealed")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != bytes {
		return fmt.Errorf("it has %d bytes, want %d", st.Size, bytes)
	}
	return nil
}

// sizeSeals fix a file's length for good.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Sealed says whether a file is memory of at least that size, for good.
func Sealed(fd int, bytes uint64) bool {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals != sizeSeals {
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Size >= 0 && uint64(st.Size) >= bytes
}
