// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"sync/atomic"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// at turns an address found by resolve into a pointer.
func at(p uintptr) unsafe.Pointer {
	// SAFETY: resolve has checked the address against the ranges of Memory,
	// which the caller keeps mapped, or against the memory of the block, which
	// the block keeps alive and which doesn't move.
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}

// addressOf is the inverse of at, for memory that its owner keeps alive.
func addressOf(p unsafe.Pointer) uintptr { return uintptr(p) }

// Peek reads size bytes.
func Peek(p uintptr, size uint8) uint64 {
	switch size {
	case 1:
		return uint64(*(*uint8)(at(p)))
	case 2:
		return uint64(*(*uint16)(at(p)))
	case 4:
		return uint64(*(*uint32)(at(p)))
	}
	return *(*uint64)(at(p))
}

// Poke writes size bytes.
func Poke(p uintptr, size uint8, v uint64) {
	switch size {
	case 1:
		*(*uint8)(at(p)) = uint8(v)
	case 2:
		*(*uint16)(at(p)) = uint16(v)
	case 4:
		*(*uint32)(at(p)) = uint32(v)
	default:
		*(*uint64)(at(p)) = v
	}
}

// peekShared and pokeShared are peek and poke for accesses by which threads
// communicate: words are read and written at once.

func peekShared(p uintptr, size uint8) uint64 {
	switch size {
	case 4:
		return uint64(load32(p))
	case 8:
		return load64(p)
	}
	return Peek(p, size)
}

func pokeShared(p uintptr, size uint8, v uint64) {
	switch size {
	case 4:
		atomic.StoreUint32((*uint32)(at(p)), uint32(v))
	case 8:
		atomic.StoreUint64((*uint64)(at(p)), v)
	default:
		Poke(p, size, v)
	}
}

// copyAsync copies length of n bytes and zeroes the rest.
func copyAsync(to, from uintptr, length, n uint64) {
	// SAFETY: as for at; resolve has checked n bytes for both.
	dst := unsafe.Slice((*byte)(at(to)), n)
	if length > 0 {
		copy(dst, unsafe.Slice((*byte)(at(from)), length))
	}
	clear(dst[length:])
}

// Atomic accesses. resolve has checked the alignment.

func cas32(p uintptr, old, value uint32) bool {
	return atomic.CompareAndSwapUint32((*uint32)(at(p)), old, value)
}

func load32(p uintptr) uint32 { return atomic.LoadUint32((*uint32)(at(p))) }

func add32(p uintptr, v uint32) uint32 { return atomic.AddUint32((*uint32)(at(p)), v) - v }

func swap32(p uintptr, v uint32) uint32 { return atomic.SwapUint32((*uint32)(at(p)), v) }

func cas64(p uintptr, old, value uint64) bool {
	return atomic.CompareAndSwapUint64((*uint64)(at(p)), old, value)
}

func load64(p uintptr) uint64 { return atomic.LoadUint64((*uint64)(at(p))) }

func add64(p uintptr, v uint64) uint64 { return atomic.AddUint64((*uint64)(at(p)), v) - v }

func swap64(p uintptr, v uint64) uint64 { return atomic.SwapUint64((*uint64)(at(p)), v) }

// CopyBytes copies size bytes between places of one warp's memory.
func CopyBytes(to, from uintptr, size uint64) {
	// SAFETY: as for at; the decoder has laid out both places.
	copy(unsafe.Slice((*byte)(at(to)), size), unsafe.Slice((*byte)(at(from)), size))
}

// ClearBytes sets memory of one block to 0.
func ClearBytes(p uintptr, size uint64) {
	// SAFETY: as for at; prepare has made room.
	clear(unsafe.Slice((*byte)(at(p)), size))
}

// BytesOf returns the address of b's first byte; b must stay reachable.
func BytesOf(b []byte) uintptr { return addressOf(unsafe.Pointer(unsafe.SliceData(b))) }

// NewBytes is lanes.NewSlab with the address as a number.
func NewBytes(size uint64) ([]uint64, uintptr) {
	slab, start := lanes.NewSlab(int(size))
	return slab, addressOf(start)
}
