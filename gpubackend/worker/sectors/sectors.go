// SPDX-License-Identifier: Apache-2.0

// Package sectors has sums of device memory (package sectorsum) that a worker may rely on.
//
// # Who owns what
//
// Nobody owns anything here.
//
// # Who may lie
//
// A guest's program decides what is in its memory. The GPU is asked for the sums, and may be wrong:
// so the sum of one sector, chosen at random, is computed here, too. A change that wrong sums hide
// would be lost.
package sectors

import (
	"math/rand/v2"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Driver is what is used of gpubackend.Driver.
type Driver interface {
	SumPieces(key uint64, list []gpubackend.Piece, sums []uint64) gpubackend.Result
	SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result
}

// Sums are those of all sectors of pieces, one behind the other, or nil if they can't be told. Who
// asks ends the driver's copies.
func Sums(d Driver, key uint64, list []gpubackend.Piece) []uint64 {
	for _, p := range list {
		if p.Bytes%sectorsum.Bytes != 0 {
			return nil
		}
	}
	sums := make([]uint64, gpubackend.PieceBytes(list)/sectorsum.Bytes)
	if len(sums) == 0 || d.SumPieces(key, list, sums) != gpubackend.Success ||
		!agrees(d, key, list, sums) {
		return nil
	}
	return sums
}

// agrees says whether this process comes to the same sum of a sector that chance takes.
func agrees(d Driver, key uint64, list []gpubackend.Piece, sums []uint64) bool {
	n := rand.IntN(len(sums))
	at := uint64(n) * sectorsum.Bytes
	for _, p := range list {
		if at >= p.Bytes {
			at -= p.Bytes
			continue
		}
		return Agrees(d, key, p.Address+at, sums[n])
	}
	return false
}

// Agrees says whether this process comes to that sum of a sector, too. Who asks ends the driver's
// copies.
func Agrees(d Driver, key, address, sum uint64) bool {
	sector := make([]byte, sectorsum.Bytes)
	piece := gpubackend.Piece{Address: address, Bytes: sectorsum.Bytes}
	r := d.SavePieces([]gpubackend.Piece{piece}, sector)
	return r == gpubackend.Success && sectorsum.Of(key, sector) == sum
}
