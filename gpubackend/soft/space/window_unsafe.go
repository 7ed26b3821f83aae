// SPDX-License-Identifier: Apache-2.0

package space

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// window is the range of addresses where a GPU's memory lives: one sparse file in memory, mapped as
// a whole.
type window struct {
	base, size uint64
	file       int
}

const windowFlags = unix.MAP_SHARED | unix.MAP_NORESERVE

// openWindow maps the window of a GPU at exactly base.
func openWindow(base, size uint64, gpu int) (*window, error) {
	fd, err := memfd.Make(memfd.Form{Kind: memfd.OfDevice, GPU: uint8(gpu), Bytes: size})
	if err != nil {
		return nil, err
	}
	w := &window{base: base, size: size, file: fd}
	if err := w.mapFile(fd, base, size, windowFlags|unix.MAP_FIXED_NOREPLACE); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map device memory: %w", err)
	}
	return w, nil
}

// mapFile maps the start of a file at addr.
func (w *window) mapFile(fd int, addr, size uint64, flags int) error {
	return w.mmap(fd, 0, addr, size, flags)
}

// restore maps the window's own file where another one was.
func (w *window) restore(addr, size uint64) error {
	return w.mmap(w.file, int64(addr-w.base), addr, size, windowFlags|unix.MAP_FIXED)
}

func (w *window) mmap(fd int, offset int64, addr, size uint64, flags int) error {
	// SAFETY: with MAP_FIXED the range lies in the window, which is this type's alone; with
	// MAP_FIXED_NOREPLACE nothing was there. Memory of the Go runtime is never replaced.
	got, err := unix.MmapPtr(fd, offset, Pointer(addr), uintptr(size),
		unix.PROT_READ|unix.PROT_WRITE, flags)
	if err == nil && got != Pointer(addr) {
		// SAFETY: a kernel without MAP_FIXED_NOREPLACE chose another place, which nothing refers
		// to.
		_ = unix.MunmapPtr(got, uintptr(size))
		err = unix.EEXIST
	}
	return err
}

// discard gives the memory of a range back to the system; the range stays mapped and reads as
// zeros.
func (w *window) discard(addr, size uint64) error {
	return unix.Fallocate(w.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
		int64(addr-w.base), int64(size))
}

// close unmaps the window. Nothing may use it any more.
func (w *window) close() {
	// SAFETY: the mapping is the window's own; the caller has ended all tasks.
	_ = unix.MunmapPtr(Pointer(w.base), uintptr(w.size))
	unix.Close(w.file)
}

// Bytes returns memory at an address. The caller has checked that the range is mapped and stays so.
func Bytes(addr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	// SAFETY: the range is device memory or registered host memory (see table.covers), never the Go
	// heap.
	return unsafe.Slice((*byte)(Pointer(addr)), n)
}

// LoadWord reads a word of 4 or 8 bytes at once. It is aligned, and mapped as Bytes says.
func LoadWord(addr, size uint64) uint64 {
	// SAFETY: as Bytes, and an aligned word is read as a whole.
	if size == 4 {
		return uint64(atomic.LoadUint32((*uint32)(Pointer(addr))))
	}
	return atomic.LoadUint64((*uint64)(Pointer(addr)))
}

// StoreWord writes a word, likewise.
func StoreWord(addr, size, value uint64) {
	// SAFETY: as LoadWord.
	if size == 4 {
		atomic.StoreUint32((*uint32)(Pointer(addr)), uint32(value))
		return
	}
	atomic.StoreUint64((*uint64)(Pointer(addr)), value)
}

// AddressOf returns the address of a non-empty slice of memory outside the Go heap.
func AddressOf(b []byte) uint64 {
	// SAFETY: the address is only computed.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// Pointer returns a pointer to an address outside the Go heap.
func Pointer(addr uint64) unsafe.Pointer {
	// SAFETY: addr is no address of the Go heap, so the garbage collector has no part in it.
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// Reserve maps free addresses so that nothing may touch them.
func Reserve(addr, size uint64) error { return reserveAt(addr, size, unix.MAP_FIXED_NOREPLACE) }

// ReserveAgain does so where something of ours is mapped.
func ReserveAgain(addr, size uint64) error { return reserveAt(addr, size, unix.MAP_FIXED) }

func reserveAt(addr, size uint64, flags int) error {
	flags |= unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	// SAFETY: with MAP_FIXED the range is one that was reserved before; with MAP_FIXED_NOREPLACE
	// nothing was there.
	got, err := unix.MmapPtr(-1, 0, Pointer(addr), uintptr(size), unix.PROT_NONE, flags)
	if err == nil && got != Pointer(addr) {
		// SAFETY: a kernel without MAP_FIXED_NOREPLACE chose another place, which nothing refers
		// to.
		_ = unix.MunmapPtr(got, uintptr(size))
		err = unix.EEXIST
	}
	return err
}

// Unreserve gives up a range that Reserve took.
func Unreserve(addr, size uint64) {
	// SAFETY: the range was reserved, and nothing is mapped in it any more.
	_ = unix.MunmapPtr(Pointer(addr), uintptr(size))
}
