// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/devmem/movable"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// Pieces implements gpubackend.Driver. Pieces that are files are another process's, or lent.
func (m *Memory) Pieces() []gpubackend.Piece {
	if m.space == nil {
		return nil
	}
	m.Reclaim()
	var all []gpubackend.Piece
	for _, h := range m.space.Heaps() {
		all = append(all, movable.Pieces(h)...)
	}
	return slices.DeleteFunc(all,
		func(p gpubackend.Piece) bool { return !m.space.Owns(p.Address) })
}

// SavePieces implements gpubackend.Driver.
func (m *Memory) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	return m.eachPiece(list, image, func(piece, part []byte) { copy(part, piece) })
}

// LoadPieces implements gpubackend.Driver.
func (m *Memory) LoadPieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	return m.eachPiece(list, image, func(piece, part []byte) { copy(piece, part) })
}

// eachPiece calls f for the bytes of each piece, which are there, and its part of an image.
func (m *Memory) eachPiece(
	list []gpubackend.Piece, image []byte, f func(piece, part []byte),
) gpubackend.Result {
	if m.space == nil || gpubackend.PieceBytes(list) > uint64(len(image)) {
		return gpubackend.InvalidValue
	}
	for _, p := range list {
		if !m.space.InWindow(p.Address) || !m.space.Covers(p.Address, p.Bytes, true) {
			return gpubackend.InvalidValue
		}
	}
	for _, p := range list {
		f(space.Bytes(p.Address, p.Bytes), image[:p.Bytes])
		image = image[p.Bytes:]
	}
	return gpubackend.Success
}

// EndCopies implements gpubackend.Driver: they pass through nothing.
func (m *Memory) EndCopies() {}

// LeavePieces implements gpubackend.Driver.
func (m *Memory) LeavePieces(list []gpubackend.Piece) gpubackend.Result {
	return m.movePieces(list, movable.Leave)
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
