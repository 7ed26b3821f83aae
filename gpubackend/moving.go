// SPDX-License-Identifier: Apache-2.0

package gpubackend

import "fmt"

// Piece is device memory that may leave the GPU and come back, at the same addresses: a segment of
// the device's heap (package devmem). Allocations are never in two pieces.
type Piece struct{ Address, Bytes uint64 }

// Moving has device memory leave the GPU, to be there for others, and come back. All work in all
// contexts is done meanwhile, no stream captures, and no other process has the pieces mapped.
// Between LeavePieces and ReturnPieces only Close may be called besides.
type Moving interface {
	// Pieces lists what could leave now, by addresses: the memory of allocations that is the
	// device's own.
	Pieces() []Piece
	// SavePieces copies pieces, one behind the other, to host memory. It waits for the copies.
	SavePieces(list []Piece, image []byte) Result
	// SaveApart does so with memory of its own for each, which is as large as the piece.
	SaveApart(list []Piece, images [][]byte) Result
	// EndCopies says that no pieces are copied for now: what copies pass through is given back. It
	// comes after SavePieces, SaveApart, LoadPieces and SumPieces, whatever they returned.
	EndCopies()
	// LeavePieces gives the memory of pieces back to the GPU: of all, or of none if one isn't
	// there.
	LeavePieces(list []Piece) Result
	// ReturnPieces puts memory, with nothing in it, behind the addresses of pieces that left: of
	// all, or of none. OutOfMemory: the GPU has no room, or the process may not have it.
	ReturnPieces(list []Piece) Result
	// LoadPieces is the reverse of SavePieces.
	LoadPieces(list []Piece, image []byte) Result
}

// Apart says whether each piece of a list has memory that is as large.
func Apart(list []Piece, images [][]byte) bool {
	for i, p := range list {
		if len(images) != len(list) || uint64(len(images[i])) != p.Bytes {
			return false
		}
	}
	return true
}

// Without is what is left of pieces when others are taken out, which lie in them, by their
// addresses as they do, and none over another. It is an error if they don't.
func Without(pieces, others []Piece) (rest []Piece, err error) {
	for _, p := range pieces {
		end := p.Address + p.Bytes
		for len(others) > 0 && others[0].Address-p.Address < p.Bytes {
			o := others[0]
			if o.Bytes == 0 || o.Bytes > end-o.Address {
				break
			}
			if o.Address != p.Address {
				rest = append(rest, Piece{p.Address, o.Address - p.Address})
			}
			p = Piece{o.Address + o.Bytes, end - o.Address - o.Bytes}
			others = others[1:]
		}
		if p.Bytes > 0 {
			rest = append(rest, p)
		}
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("%d bytes at %#x aren't in any piece, or twice", others[0].Bytes,
			others[0].Address)
	}
	return rest, nil
}

// AppendPiece appends a piece to a list. One that begins where the last one ends is joined to it.
func AppendPiece(list []Piece, p Piece) []Piece {
	if n := len(list) - 1; n >= 0 && list[n].Address+list[n].Bytes == p.Address {
		list[n].Bytes += p.Bytes
		return list
	}
	return append(list, p)
}

// PieceBytes is how much all of a list are.
func PieceBytes(list []Piece) (sum uint64) {
	for _, p := range list {
		sum += p.Bytes
	}
	return sum
}
