// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime"
	"sync"

	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/devmem/movable"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// Pieces implements gpubackend.Driver. Memory that is a file belongs to another process, or is
// lent: it is no piece, unless CreateMemory made it.
func (m *Memory) Pieces() []gpubackend.Piece {
	if m.space == nil {
		return nil
	}
	m.Reclaim()
	return m.pieces(movable.Pieces)
}

// PresentPieces implements gpubackend.Driver.
func (m *Memory) PresentPieces() []gpubackend.Piece {
	if m.space == nil {
		return nil
	}
	return m.pieces(movable.Present)
}

func (m *Memory) pieces(
	of func(*devmem.Heap, func(addr uint64) bool) []gpubackend.Piece,
) (all []gpubackend.Piece) {
	for _, h := range m.space.Heaps() {
		all = append(all, of(h, m.space.KeepsFile)...)
	}
	return slices.DeleteFunc(all,
		func(p gpubackend.Piece) bool { return !m.space.Owns(p.Address) })
}

// SavePieces implements gpubackend.Driver.
func (m *Memory) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	return m.eachPiece(list, image, func(piece, part []byte) { copy(part, piece) })
}

// SaveApart implements gpubackend.Driver.
func (m *Memory) SaveApart(list []gpubackend.Piece, images [][]byte) gpubackend.Result {
	if !gpubackend.Apart(list, images) || !m.there(list) {
		return gpubackend.InvalidValue
	}
	for i, p := range list {
		copy(images[i], space.Bytes(p.Address, p.Bytes))
	}
	return gpubackend.Success
}

// SumPieces implements gpubackend.Driver.
func (m *Memory) SumPieces(
	key uint64, list []gpubackend.Piece, sums []uint64,
) gpubackend.Result {
	if uint64(len(sums))*sectorsum.Bytes != gpubackend.PieceBytes(list) {
		return gpubackend.InvalidValue
	}
	for i, p := range list {
		n := p.Bytes / sectorsum.Bytes
		if p.Bytes%sectorsum.Bytes != 0 || !m.there(list[i:i+1]) {
			return gpubackend.InvalidValue
		}
		eachSum(key, space.Bytes(p.Address, p.Bytes), sums[:n])
		sums = sums[n:]
	}
	return gpubackend.Success
}

// eachSum is sectorsum.Each on all processors.
func eachSum(key uint64, sectors []byte, sums []uint64) {
	part := len(sums)/runtime.GOMAXPROCS(0) + 1
	var all sync.WaitGroup
	for len(sums) > 0 {
		n := min(part, len(sums))
		b, of := sectors[:n*sectorsum.Bytes], sums[:n]
		all.Go(func() { sectorsum.Each(key, b, of) })
		sectors, sums = sectors[n*sectorsum.Bytes:], sums[n:]
	}
	all.Wait()
}

// LoadPieces implements gpubackend.Driver.
func (m *Memory) LoadPieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	return m.eachPiece(list, image, func(piece, part []byte) { copy(piece, part) })
}

// eachPiece calls f for the bytes of each piece, which are there, and its part of an image.
func (m *Memory) eachPiece(
	list []gpubackend.Piece, image []byte, f func(piece, part []byte),
) gpubackend.Result {
	if gpubackend.PieceBytes(list) > uint64(len(image)) || !m.there(list) {
		return gpubackend.InvalidValue
	}
	for _, p := range list {
		f(space.Bytes(p.Address, p.Bytes), image[:p.Bytes])
		image = image[p.Bytes:]
	}
	return gpubackend.Success
}

// there says whether pieces can be read and written.
func (m *Memory) there(list []gpubackend.Piece) bool {
	for _, p := range list {
		if m.space == nil || !m.space.InWindow(p.Address) ||
			!m.space.Covers(p.Address, p.Bytes, true) {
			return false
		}
	}
	return true
}

// EndCopies implements gpubackend.Driver. There are no buffers to give back.
func (m *Memory) EndCopies() {}

// LeavePieces implements gpubackend.Driver. Files of CreateMemory stay mapped where they are, with
// nothing in them.
func (m *Memory) LeavePieces(list []gpubackend.Piece) gpubackend.Result {
	r := m.movePieces(list, movable.Leave)
	for _, p := range list {
		if c := m.created[p.Address]; r == gpubackend.Success && c != nil {
			_ = memfd.Discard(c.file, c.bytes) // the memory is used again otherwise
		}
	}
	return r
}

// ReturnPieces implements gpubackend.Driver.
func (m *Memory) ReturnPieces(list []gpubackend.Piece) gpubackend.Result {
	return m.movePieces(list, movable.Return)
}

func (m *Memory) movePieces(
	list []gpubackend.Piece,
	move func(func(uint64) *devmem.Heap, []gpubackend.Piece) gpubackend.Result,
) gpubackend.Result {
	if m.space == nil {
		return gpubackend.InvalidValue
	}
	return move(m.space.HeapOf, list)
}
