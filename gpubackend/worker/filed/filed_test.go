// SPDX-License-Identifier: Apache-2.0

package filed

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

const sector = sectorsum.Bytes

// device has memory of whole sectors, by their addresses.
type device struct {
	memory map[uint64][]byte
	wrong  bool // its sums are wrong
}

func (d *device) SumPieces(key uint64, list []gpubackend.Piece, sums []uint64) gpubackend.Result {
	for _, p := range list {
		for at := p.Address; at < p.Address+p.Bytes; at += sector {
			sums[0] = sectorsum.Of(key, d.memory[at])
			if d.wrong {
				sums[0] = 7
			}
			sums = sums[1:]
		}
	}
	return gpubackend.Success
}

func (d *device) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	for _, p := range list {
		for at := p.Address; at < p.Address+p.Bytes; at += sector {
			image = image[copy(image, d.memory[at]):]
		}
	}
	return gpubackend.Success
}

func (d *device) EndCopies() {}

// all is the content of pieces, one behind the other.
func (d *device) all(list []gpubackend.Piece) []byte {
	b := make([]byte, gpubackend.PieceBytes(list))
	d.SavePieces(list, b)
	return b
}

// write changes or makes a sector.
func (d *device) write(at uint64, content byte) {
	d.memory[at] = bytes.Repeat([]byte{content}, sector)
}

// sometimes is a random choice of the sectors of an address space, as pieces.
func sometimes(r *rand.Rand) (list []gpubackend.Piece) {
	for at := uint64(1); at < 40; at++ {
		switch last := len(list) - 1; {
		case r.IntN(4) == 0:
		case last >= 0 && r.IntN(2) == 0 && list[last].Address+list[last].Bytes == at*sector:
			list[last].Bytes += sector
		default:
			list = append(list, gpubackend.Piece{Address: at * sector, Bytes: sector})
		}
	}
	return list
}

// TestCompare: memory can be made from what the file has and what is written, whatever was freed,
// allocated and changed meanwhile. What hasn't changed isn't written.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d := &device{memory: map[uint64][]byte{}}
	m := New(Config{Driver: d, Key: rand.Uint64})
	for round := range 20 {
		before := sometimes(r)
		for at := uint64(0); at < 40; at++ {
			d.write(at*sector, byte(at))
		}
		m.Note(before)
		file := d.all(before)
		changed := map[uint64]bool{}
		for range r.IntN(10) {
			at := uint64(r.IntN(40)) * sector
			d.write(at, byte(100+r.IntN(100)))
			changed[at] = true
		}
		now := before
		if round%2 == 0 {
			now = sometimes(r)
		}
		runs, rest := m.Compare(now)
		if err := rebuilds(runs, file, d.all(rest), d.all(now)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%2 == 0 || runs == nil {
			continue
		}
		for _, p := range rest {
			for at := p.Address; at < p.Address+p.Bytes; at += sector {
				if !changed[at] {
					t.Fatalf("round %d: %#x is written, and hasn't changed", round, at)
				}
			}
		}
	}
}

// rebuilds makes memory from the content of the file and what is written, as the runs say, and says
// if that is wrong.
func rebuilds(runs []savedvm.SameRun, file, written, want []byte) error {
	got := written
	if runs != nil {
		got = nil
	}
	for _, r := range runs {
		got = append(got, file[r.From:r.From+r.Same]...)
		got, written = append(got, written[:r.Own]...), written[r.Own:]
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes are others than %d", len(got), len(want))
	}
	return nil
}

// TestUnknown: all is written where nothing is known of a file, or of memory.
func TestUnknown(t *testing.T) {
	d := &device{memory: map[uint64][]byte{}}
	list := []gpubackend.Piece{{Address: 0, Bytes: 3 * sector}}
	for at := range uint64(3) {
		d.write(at*sector, 1)
	}
	odd := []gpubackend.Piece{{Address: 0, Bytes: sector}, {Address: sector, Bytes: 100}}
	for name, x := range map[string]struct {
		do   func(m *Memory)
		list []gpubackend.Piece
	}{
		"no file":     {func(*Memory) {}, list},
		"a wrong GPU": {func(m *Memory) { m.Note(list); d.wrong = true }, list},
		"wrong then": {func(m *Memory) {
			d.wrong = true
			m.Note(list)
			d.wrong = false
		}, list},
		"half a sector":   {func(m *Memory) { m.Note(list) }, odd},
		"half one before": {func(m *Memory) { m.Note(odd) }, list},
		"nothing now":     {func(m *Memory) { m.Note(list) }, nil},
		"elsewhere": {func(m *Memory) { m.Note(list[:1]); d.write(8*sector, 1) },
			[]gpubackend.Piece{{Address: 8 * sector, Bytes: sector}}},
	} {
		d.wrong = false
		m := New(Config{Driver: d, Key: rand.Uint64})
		x.do(m)
		if runs, rest := m.Compare(x.list); runs != nil || !slices.Equal(rest, x.list) {
			t.Errorf("%s: %v, %v", name, runs, rest)
		}
	}
	d.wrong = false
	m := New(Config{Driver: d, Key: rand.Uint64})
	m.Note(list)
	want := []savedvm.SameRun{{Same: 3 * sector}}
	if runs, rest := m.Compare(list); !slices.Equal(runs, want) || rest != nil {
		t.Errorf("all is there: %v, %v", runs, rest)
	}
}
