// SPDX-License-Identifier: Apache-2.0

// Package image is host memory for device memory that was moved out of a GPU.
//
// # Who owns what
//
// The device process asks how much memory the host has (Host) and says how large an image may be.
// The worker whose memory is moved out has the image (New): it is anonymous memory in huge pages.
// New pages of a file take several times as long, however many threads write to them. Nobody else
// can read it, and it ends with the worker.
//
// # Who may lie
//
// A worker may take memory without being asked, like any process of its user. Its host-memory and
// its control group bound that; an image bounds nothing.
package image

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// ErrSize is the error for an image of no bytes, or of more than there are addresses.
var ErrSize = errors.New("an image can't be of that size")

// Image is a mapped image. A page takes memory once it is written.
type Image struct{ mem []byte }

// New makes an image.
func New(bytes uint64) (*Image, error) {
	if bytes == 0 || bytes > math.MaxInt64 {
		return nil, fmt.Errorf("make an image of %d bytes: %w", bytes, ErrSize)
	}
	mem, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("make an image of %d bytes: %w", bytes, err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // without them, small pages will do
	return &Image{mem}, nil
}

// Bytes is the image's memory, until it is closed.
func (i *Image) Bytes() []byte { return i.mem }

// Drop gives whole pages back. They read as zeros until something is written.
func (i *Image) Drop(from, bytes uint64) {
	_ = unix.Madvise(i.mem[from:from+bytes], unix.MADV_DONTNEED)
}

// Close gives all memory back.
func (i *Image) Close() {
	_ = unix.Munmap(i.mem)
	i.mem = nil
}
