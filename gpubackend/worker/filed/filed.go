// SPDX-License-Identifier: Apache-2.0

// Package filed knows what of a program's device memory is in the file that the program went on
// from, so that the next state that is written behind it needs only the rest.
//
// When the program has been made from the file, the sums of its memory's sectors are computed
// (package sectorsum), and once more when it is to be saved again: sectors whose sums are the same
// have what the file has. Nothing is assumed of memory meanwhile: what was freed, and allocated
// again at the same place, is what it was if its bytes are.
//
// # Who owns what
//
// The worker's loop owns a Memory: 8 bytes for each sector.
//
// # Who may lie
//
// A guest's program decides what is in its memory, and so what sums are compared. Were it to guess
// the key, which never leaves the worker, it would get back older bytes of its own.
package filed

import (
	"sort"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/worker/sectors"
)

// Driver is what a Memory uses of gpubackend.Driver.
type Driver interface {
	sectors.Driver
	EndCopies()
}

// Config is what a Memory needs.
type Config struct {
	Driver Driver
	// Key is a random number.
	Key func() uint64
}

// Memory is what the file has.
type Memory struct {
	Config
	key    uint64
	pieces []filedPiece // by their addresses
}

// filedPiece is a piece that is in the file.
type filedPiece struct {
	gpubackend.Piece
	at   uint64   // in what the file has of the program's memory
	sums []uint64 // of its sectors
}

// New returns a Memory of which the file has nothing.
func New(c Config) *Memory { return &Memory{Config: c, key: c.Key()} }

// Note notes that the file has pieces as they are now, one behind the other. If their sums can't be
// told, nothing that the file has is known.
func (m *Memory) Note(list []gpubackend.Piece) {
	defer m.Driver.EndCopies()
	m.pieces = nil
	sums, at := sectors.Sums(m.Driver, m.key, list), uint64(0)
	if sums == nil {
		return
	}
	for _, p := range list {
		n := p.Bytes / sectorsum.Bytes
		m.pieces = append(m.pieces, filedPiece{p, at, sums[:n:n]})
		at, sums = at+p.Bytes, sums[n:]
	}
	sort.Slice(m.pieces, func(i, j int) bool {
		return m.pieces[i].Address < m.pieces[j].Address
	})
}

// Stored is a sector that the file has.
type Stored struct {
	Address, Sum uint64
	At           uint64 // in what the file has of the program's memory
}

// Sectors are all that the file has, and the key of their sums.
func (m *Memory) Sectors() (key uint64, list []Stored) {
	for _, p := range m.pieces {
		for i, sum := range p.sums {
			at := uint64(i) * sectorsum.Bytes
			list = append(list, Stored{p.Address + at, sum, p.at + at})
		}
	}
	return m.key, list
}

// Compare says what of pieces, one behind the other, is in the file, and what isn't: nil runs say
// that nothing is.
func (m *Memory) Compare(
	list []gpubackend.Piece,
) (runs []savedvm.SameRun, rest []gpubackend.Piece) {
	defer m.Driver.EndCopies()
	if m.pieces == nil {
		return nil, list
	}
	sums := sectors.Sums(m.Driver, m.key, list)
	if sums == nil {
		return nil, list
	}
	var c savedvm.Whereabouts
	for _, p := range list {
		for n := uint64(0); n < p.Bytes; n += sectorsum.Bytes {
			sector := gpubackend.Piece{Address: p.Address + n, Bytes: sectorsum.Bytes}
			if at, ok := m.has(sector.Address, sums[0]); ok {
				c.Has(sector, at)
			} else {
				c.Lacks(sector)
			}
			sums = sums[1:]
		}
	}
	if c.Useless() {
		return nil, list
	}
	return c.Runs, c.Rest
}

// has says where the file has a sector with such a sum.
func (m *Memory) has(address, sum uint64) (at uint64, ok bool) {
	i := sort.Search(len(m.pieces), func(i int) bool { return m.pieces[i].Address > address }) - 1
	if i < 0 {
		return 0, false
	}
	p := &m.pieces[i]
	offset := address - p.Address
	if offset >= p.Bytes || offset%sectorsum.Bytes != 0 || p.sums[offset/sectorsum.Bytes] != sum {
		return 0, false
	}
	return p.at + offset, true
}
