// SPDX-License-Identifier: Apache-2.0

package gpubackend

// Comparing tells what of device memory a copy doesn't have that was made before. Work may go on
// while PresentPieces is called and SavePieces after that, as long as no stream captures, and other
// processes may have pieces mapped: such a copy has some of what is written meanwhile.
type Comparing interface {
	// PresentPieces lists what Pieces may list later, and takes nothing back for it.
	PresentPieces() []Piece
	// SumPieces computes the sums of the sectors of pieces, one behind the other (package
	// sectorsum). Each piece is a multiple of a sector.
	SumPieces(key uint64, list []Piece, sums []uint64) Result
}
