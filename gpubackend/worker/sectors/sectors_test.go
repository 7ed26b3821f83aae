// SPDX-License-Identifier: Apache-2.0

package sectors

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

const (
	key  = 7
	base = 1 << 40
)

// fakeDriver has memory at base, and sums that may be wrong.
type fakeDriver struct {
	memory       []byte
	wrong        int // number of the sum that is; -1: none
	summed, read gpubackend.Result
	saved        map[uint64]bool // addresses
}

func newDriver(sectors int) *fakeDriver {
	d := &fakeDriver{memory: make([]byte, sectors*sectorsum.Bytes), wrong: -1,
		saved: map[uint64]bool{}}
	for i := range d.memory {
		d.memory[i] = byte(i / sectorsum.Bytes * 3)
	}
	return d
}

func (d *fakeDriver) of(p gpubackend.Piece) []byte { return d.memory[p.Address-base:][:p.Bytes] }

func (d *fakeDriver) SumPieces(
	key uint64, list []gpubackend.Piece, sums []uint64,
) gpubackend.Result {
	n := 0
	for _, p := range list {
		sectorsum.Each(key, d.of(p), sums[n:])
		n += int(p.Bytes / sectorsum.Bytes)
	}
	if d.wrong >= 0 {
		sums[d.wrong]++
	}
	return d.summed
}

func (d *fakeDriver) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	for _, p := range list {
		d.saved[p.Address] = true
		image = image[copy(image, d.of(p)):]
	}
	return d.read
}

// pieces are sectors 0, and 2 and 3: sector 1 isn't asked for.
var pieces = []gpubackend.Piece{{Address: base, Bytes: sectorsum.Bytes},
	{Address: base + 2*sectorsum.Bytes, Bytes: 2 * sectorsum.Bytes}}

// TestSums: they are those of the pieces' sectors, each of which is checked sooner or later.
func TestSums(t *testing.T) {
	d := newDriver(4)
	var want []uint64
	for _, n := range []int{0, 2, 3} {
		want = append(want, sectorsum.Of(key, d.memory[n*sectorsum.Bytes:][:sectorsum.Bytes]))
	}
	for range 1000 {
		if got := Sums(d, key, pieces); !slices.Equal(got, want) {
			t.Fatalf("sums %x, want %x", got, want)
		}
		if len(d.saved) == len(want) {
			break
		}
	}
	for _, n := range []uint64{0, 2, 3} {
		if !d.saved[base+n*sectorsum.Bytes] {
			t.Errorf("sector %d is never checked", n)
		}
	}
	if len(d.saved) != len(want) {
		t.Errorf("checked at %v, want the beginnings of 3 sectors", d.saved)
	}
}

// TestNoSums: without sums that can be relied on there are none.
func TestNoSums(t *testing.T) {
	one := []gpubackend.Piece{{Address: base, Bytes: sectorsum.Bytes}}
	for _, c := range []struct {
		name string
		list []gpubackend.Piece
		on   func(d *fakeDriver)
	}{
		{"no pieces", nil, func(*fakeDriver) {}},
		{"a part of a sector", []gpubackend.Piece{{Address: base, Bytes: sectorsum.Bytes - 8}},
			func(*fakeDriver) {}},
		{"the GPU can't", one, func(d *fakeDriver) { d.summed = gpubackend.NotSupported }},
		{"the GPU is wrong", one, func(d *fakeDriver) { d.wrong = 0 }},
		{"the sector can't be read", one, func(d *fakeDriver) { d.read = gpubackend.InvalidValue }},
	} {
		d := newDriver(1)
		c.on(d)
		if got := Sums(d, key, c.list); got != nil {
			t.Errorf("%s: sums %x, want none", c.name, got)
		}
	}
}
