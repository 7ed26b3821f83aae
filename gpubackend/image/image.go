// SPDX-License-Identifier: Apache-2.0

// Package image is host memory for device memory that was moved out of a GPU.
//
// # Who owns what
//
// The device process makes an image (New), when there is room for it, and hands its file to the
// worker whose memory it is for. The worker maps it (Open). When both have closed it, or ended, the
// host has the memory back.
//
// # Who may lie
//
// A worker may write anything to its image, which nobody else reads. It can't make it longer: the
// size is sealed, so that what the device process has allowed is what it takes. A file that isn't
// of that size, or whose size may change, isn't mapped.
package image

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrImage is the error for a file that is no image of the wanted size.
var ErrImage = errors.New("not an image of that size")

// seals keep an image as long as it is.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// New makes the file of an image. Its memory is taken as it is written.
func New(bytes uint64) (fd int, err error) {
	if fd, err = unix.MemfdCreate("paracuda-image",
		unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, fmt.Errorf("make an image: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(bytes)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("make an image of %d bytes: %w", bytes, err)
	}
	return fd, nil
}

// Image is one that is mapped.
type Image struct{ mem []byte }

// Open maps an image, and closes its file.
func Open(fd int, bytes uint64) (*Image, error) {
	defer func() { _ = unix.Close(fd) }()
	has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || has&seals != seals {
		return nil, fmt.Errorf("open an image: its size isn't sealed: %w", ErrImage)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size <= 0 || uint64(st.Size) != bytes {
		return nil, fmt.Errorf("open an image: %d bytes, want %d: %w", st.Size, bytes, ErrImage)
	}
	mem, err := unix.Mmap(fd, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map an image: %w", err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // where the host doesn't have them, small ones do
	return &Image{mem}, nil
}

// Bytes is the image's memory, until it is closed.
func (i *Image) Bytes() []byte { return i.mem }

// Close unmaps it.
func (i *Image) Close() {
	_ = unix.Munmap(i.mem)
	i.mem = nil
}
