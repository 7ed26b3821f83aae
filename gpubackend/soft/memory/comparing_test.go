// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// TestComparing: pieces that are present have the sums of their content. Nothing else has sums.
func TestComparing(t *testing.T) {
	r := newRig(t, 64<<20, 4)
	if len(r.PresentPieces()) != 0 {
		t.Error("pieces without an allocation")
	}
	addr, result := r.MemAlloc(5 << 20)
	ok(t, result)
	copy(space.Bytes(addr+sectorsum.Bytes, 5), "hello")
	list := r.PresentPieces()
	if !slices.Equal(list, r.Pieces()) {
		t.Errorf("there is %+v, and %+v could leave", list, r.Pieces())
	}
	sums := make([]uint64, gpubackend.PieceBytes(list)/sectorsum.Bytes)
	ok(t, r.SumPieces(7, list, sums))
	for i, sum := range sums {
		at := addr + uint64(i)*sectorsum.Bytes
		if want := sectorsum.Of(7, space.Bytes(at, sectorsum.Bytes)); sum != want {
			t.Errorf("the sum of sector %d is %#x, want %#x", i, sum, want)
		}
	}
	if sums[0] == sums[1] || sums[0] != sums[2] {
		t.Errorf("sums are %#x", sums[:3])
	}
	want(t, r.SumPieces(7, list, sums[1:]), gpubackend.InvalidValue)
	half := []gpubackend.Piece{{Address: addr, Bytes: sectorsum.Bytes / 2},
		{Address: addr, Bytes: sectorsum.Bytes / 2}}
	want(t, r.SumPieces(7, half, sums[:1]), gpubackend.InvalidValue)
	nowhere := []gpubackend.Piece{{Address: 5, Bytes: sectorsum.Bytes}}
	want(t, r.SumPieces(7, nowhere, sums[:1]), gpubackend.InvalidValue)
	ok(t, r.LeavePieces(list))
	want(t, r.SumPieces(7, list, sums), gpubackend.InvalidValue)
	if left := r.PresentPieces(); len(left) != 0 {
		t.Errorf("%+v is there when all is out", left)
	}
	ok(t, r.ReturnPieces(list))
	ok(t, r.MemFree(addr))
}
