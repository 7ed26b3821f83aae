// SPDX-License-Identifier: Apache-2.0

package gpubackend

// Comparing tells in which parts device memory differs from an earlier copy. Work may go on during
// PresentPieces and the SavePieces after it, as long as no stream captures, and other processes may
// have pieces mapped: the copy then has some of what is written meanwhile.
type Comparing interface {
	// PresentPieces lists what Pieces may list later, and takes nothing back for it.
	PresentPieces() []Piece
	// SumPieces computes the sums of the sectors of pieces, one after the other (package
	// sectorsum). Each piece is a multiple of a sector. NotReady: work goes on for long, and sums
	// can't be computed beside it.
	SumPieces(key uint64, list []Piece, sums []uint64) Result
}
