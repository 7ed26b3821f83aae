// SPDX-License-Identifier: Apache-2.0

package gpubackend

import (
	"math"
	"slices"
	"testing"
)

// TestWithout takes pieces out of others.
func TestWithout(t *testing.T) {
	pieces := []Piece{{10, 10}, {20, 5}, {40, 1}}
	for _, x := range []struct{ others, want []Piece }{
		{nil, pieces},
		{pieces, nil},
		{[]Piece{{10, 2}, {12, 1}}, []Piece{{13, 7}, {20, 5}, {40, 1}}},
		{[]Piece{{15, 5}, {24, 1}, {40, 1}}, []Piece{{10, 5}, {20, 4}}},
	} {
		if got, err := Without(pieces, x.others); err != nil || !slices.Equal(got, x.want) {
			t.Errorf("without %v: %v, %v, want %v", x.others, got, err, x.want)
		}
	}
	for _, others := range [][]Piece{
		{{9, 1}}, {{10, 0}}, {{15, 6}}, {{12, 1}, {11, 1}}, {{40, 1}, {40, 1}}, {{41, 1}},
		{{10, math.MaxUint64}}, {{math.MaxUint64, 20}}, {{20, 1}, {10, 1}},
	} {
		if got, err := Without(pieces, others); err == nil {
			t.Errorf("without %v: %v", others, got)
		}
	}
	if got, err := Without([]Piece{{math.MaxUint64, 3}}, []Piece{{0, 1}}); err != nil ||
		!slices.Equal(got, []Piece{{math.MaxUint64, 1}, {1, 1}}) {
		t.Errorf("of a piece that no memory is: %v, %v", got, err)
	}
}

func TestAppendPiece(t *testing.T) {
	var list []Piece
	for _, p := range []Piece{{10, 5}, {15, 5}, {21, 1}, {10, 2}} {
		list = AppendPiece(list, p)
	}
	if want := []Piece{{10, 10}, {21, 1}, {10, 2}}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
}
