// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// The fake device has one piece of memory. The field memory is its content; nil: there is none.

const fakePiece = 1 << 44

func (f *fakeDriver) Pieces() []gpubackend.Piece {
	if f.memory == nil || f.away {
		return nil
	}
	return []gpubackend.Piece{{Address: fakePiece, Bytes: uint64(len(f.memory))}}
}

func (f *fakeDriver) SavePieces(_ []gpubackend.Piece, image []byte) gpubackend.Result {
	copy(image, f.memory)
	return f.moves
}

func (f *fakeDriver) SaveApart(_ []gpubackend.Piece, images [][]byte) gpubackend.Result {
	from := f.memory
	for _, image := range images {
		from = from[copy(image, from):]
	}
	return f.moves
}

func (f *fakeDriver) EndCopies() {}
func (f *fakeDriver) LeavePieces([]gpubackend.Piece) gpubackend.Result {
	if f.away {
		return gpubackend.InvalidValue
	}
	clear(f.memory)
	f.away = true
	return gpubackend.Success
}

func (f *fakeDriver) ReturnPieces([]gpubackend.Piece) gpubackend.Result {
	if !f.away {
		return gpubackend.InvalidValue
	}
	if f.moves == gpubackend.Success {
		f.away = false
	}
	return f.moves
}

func (f *fakeDriver) LoadPieces(_ []gpubackend.Piece, image []byte) gpubackend.Result {
	copy(f.memory, image)
	return gpubackend.Success
}

func (f *fakeDriver) PresentPieces() []gpubackend.Piece { return f.Pieces() }

func (f *fakeDriver) SumPieces(
	key uint64, list []gpubackend.Piece, sums []uint64,
) gpubackend.Result {
	for i, p := range list {
		sums[i] = sectorsum.Of(key, f.memory[p.Address-fakePiece:][:p.Bytes])
	}
	return f.moves
}
