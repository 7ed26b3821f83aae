// SPDX-License-Identifier: Apache-2.0

package gpubackend

import "fmt"

// Piece is device memory that may leave the GPU and come back, at the same addresses: a segment of
// the device's heap (package devmem). No allocation is in two pieces. Memory of CreateMemory is a
// piece, too: its address serves to copy it, and says nothing about where it is mapped, which stays
// as it is when it leaves and comes back.
type Piece struct{ Address, Bytes uint64 }

// Moving lets device memory leave the GPU, to make room for others, and come back. Meanwhile no
// context has work, no stream captures, and no other process has the pieces mapped. Between
// LeavePieces and ReturnPieces only Close may be called, and what Saving and SavePieces do, of
// other pieces.
type Moving interface {
	// Pieces lists what could leave now, by addresses: the memory of allocations that is the
	// device's own.
	Pieces() []Piece
	// SavePieces copies pieces, one after the other, to host memory. It waits for the copies.
	SavePieces(list []Piece, image []byte) Result
	// SaveApart does so with separate memory for each piece, of the same size.
	SaveApart(list []Piece, images [][]byte) Result
	// EndCopies says that no pieces are copied for now: the staging memory of copies is given back,
	// or, if work goes on for long, at the next EndCopies without work. It is called after
	// SavePieces, SaveApart, LoadPieces and SumPieces, also after an error.
	EndCopies()
	// LeavePieces gives the memory of pieces back to the GPU: of all, or of none if one isn't
	// there.
	LeavePieces(list []Piece) Result
	// ReturnPieces puts memory with undefined contents behind the addresses of pieces that left: of
	// all, or of none. OutOfMemory: the GPU has no room, or the process may not have it.
	ReturnPieces(list []Piece) Result
	// LoadPieces is the reverse of SavePieces.
	LoadPieces(list []Piece, image []byte) Result
}

// Apart says whether each piece of a list has memory of its size.
func Apart(list []Piece, images [][]byte) bool {
	for i, p := range list {
		if len(images) != len(list) || uint64(len(images[i])) != p.Bytes {
			return false
		}
	}
	return true
}

// Without is what is left of pieces when others are taken out. These must lie in the pieces, be
// sorted by address and not overlap.
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
		return nil, fmt.Errorf("%d bytes at %#x are in no piece, or are listed twice",
			others[0].Bytes,
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

// PieceBytes is the size of all pieces of a list.
func PieceBytes(list []Piece) (sum uint64) {
	for _, p := range list {
		sum += p.Bytes
	}
	return sum
}
