// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Bounds of a region.
const (
	MaxQueues = 256
	MaxSize   = 32768 // descriptors of a queue
)

const (
	queueAlign  = 64
	queueHeader = 16
	descBytes   = 16
)

// ErrRegion marks a region that can't be used, or whose contents contradict each other.
var ErrRegion = errors.New("record of what is in flight")

// Shape says how many queues a region is for, and of how many descriptors each is.
type Shape struct {
	Queues int
	Size   uint16
}

// check refuses a shape that no device has.
func (s Shape) check() error {
	if s.Queues < 1 || s.Queues > MaxQueues {
		return fmt.Errorf("%w: %d queues", ErrRegion, s.Queues)
	}
	if s.Size == 0 || s.Size > MaxSize || s.Size&(s.Size-1) != 0 {
		return fmt.Errorf("%w: queues of %d", ErrRegion, s.Size)
	}
	return nil
}

// stride is how far apart the queues are.
func (s Shape) stride() int {
	n := queueHeader + descBytes*int(s.Size)
	return (n + queueAlign - 1) &^ (queueAlign - 1)
}

// Bytes is the length of a region.
func (s Shape) Bytes() uint64 { return uint64(s.Queues) * uint64(s.stride()) }

// Create makes the file of a new region. It can't be cut short. The caller owns the descriptor.
func Create(s Shape) (fd int, err error) {
	if err := s.check(); err != nil {
		return -1, err
	}
	fd, err = unix.MemfdCreate("in flight", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("%w: memfd_create: %w", ErrRegion, err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if err = unix.Ftruncate(fd, int64(s.Bytes())); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%w: set length: %w", ErrRegion, err)
	}
	return fd, nil
}

// Region is a record that is mapped.
type Region struct {
	shape Shape
	whole []byte // nil after Close
}

// Open maps size bytes of a file from offset on. The descriptor stays the caller's.
func Open(fd int, offset, size uint64, s Shape) (*Region, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	switch {
	case size < s.Bytes():
		return nil, fmt.Errorf("%w of %d bytes for %+v", ErrRegion, size, s)
	case offset%uint64(unix.Getpagesize()) != 0 || offset > math.MaxInt64-s.Bytes():
		return nil, fmt.Errorf("%w: offset %#x", ErrRegion, offset)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("%w: stat: %w", ErrRegion, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%w: a file of mode %#o is no memory", ErrRegion, st.Mode)
	}
	if uint64(st.Size) < offset+s.Bytes() {
		return nil, fmt.Errorf("%w: the file has %d bytes, the record ends at %d",
			ErrRegion, st.Size, offset+s.Bytes())
	}
	mem, err := unix.Mmap(fd, int64(offset), int(s.Bytes()), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%w: mmap: %w", ErrRegion, err)
	}
	return &Region{shape: s, whole: mem}, nil
}

// Shape says what the region is for.
func (r *Region) Shape() Shape { return r.shape }

// Queue returns the record of a queue, or nil if the region has none for it.
func (r *Region) Queue(i int) *Queue {
	if r == nil || r.whole == nil || i < 0 || i >= r.shape.Queues {
		return nil
	}
	n := r.shape.stride()
	return &Queue{mem: r.whole[i*n : (i+1)*n : (i+1)*n], size: r.shape.Size}
}

// Close unmaps the region.
func (r *Region) Close() error {
	if r == nil || r.whole == nil {
		return nil
	}
	err := unix.Munmap(r.whole)
	r.whole = nil
	return err
}
