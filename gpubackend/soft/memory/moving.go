// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// Pieces implements gpubackend.Driver. Pieces that are files are another process's, or lent.
func (m *Memory) Pieces() (list []gpubackend.Piece) {
	if m.space == nil {
		return nil
	}
	m.Reclaim()
	m.space.Heap.Trim()
	for _, p := range m.space.Heap.Pieces() {
		if m.space.Owns(p.Address) && p.Kind != ledger.Staging && p.Kind != ledger.Mapped {
			list = append(list, gpubackend.Piece{Address: p.Address, Bytes: p.Bytes})
		}
	}
	return list
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

// LeavePieces implements gpubackend.Driver.
func (m *Memory) LeavePieces(list []gpubackend.Piece) gpubackend.Result {
	return m.movePieces(list, devmem.LeaveAll)
}

// ReturnPieces implements gpubackend.Driver.
func (m *Memory) ReturnPieces(list []gpubackend.Piece) gpubackend.Result {
	return m.movePieces(list, devmem.ReturnAll)
}

func (m *Memory) movePieces(
	list []gpubackend.Piece, move func(func(uint64) *devmem.Heap, []uint64) error,
) gpubackend.Result {
	if m.space == nil {
		return gpubackend.InvalidValue
	}
	addrs := make([]uint64, len(list))
	for i, p := range list {
		addrs[i] = p.Address
	}
	switch err := move(func(uint64) *devmem.Heap { return m.space.Heap }, addrs); {
	case err == nil:
		return gpubackend.Success
	case errors.Is(err, devmem.ErrOutOfMemory):
		return gpubackend.OutOfMemory
	}
	return gpubackend.InvalidValue
}
