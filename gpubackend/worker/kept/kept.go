// SPDX-License-Identifier: Apache-2.0

// Package kept has copies of device memory in the host's memory. They may be kept while the memory
// itself is used again: the next time, only what has changed since is copied.
//
// Changes are found by the sums of sectors (package sectorsum). A piece is identified by its
// address and size only: if it was freed and allocated again at the same place with the same bytes,
// it is unchanged.
//
// # Who owns what
//
// The worker's loop owns a Store, which is of one guest process: nobody else can read its memory,
// which ends with the worker.
//
// # Who may lie
//
// A guest's program decides what is in its memory, and so which sums are compared. If it guessed
// the key, which never leaves the worker, it would get back older bytes of its own.
package kept

import (
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Store is copies of pieces. The zero value has none.
type Store struct {
	// Images counts the bytes of all copies.
	Images *atomic.Uint64
	berths map[uint64]*berth // by address
	slabs  map[*slab]struct{}
}

// berth is where the copy of a piece is.
type berth struct {
	slab          *slab
	offset, bytes uint64
	sums          []uint64 // of its sectors; nil: the content isn't known
}

// slab is memory for several pieces. Its unused parts have been given back.
type slab struct {
	image      *image.Image
	size, used uint64
}

// Update is a part of some piece, and the memory for its copy.
type Update struct {
	Pieces   []gpubackend.Piece
	Image    []byte
	slab     *slab
	from, to uint64
}

// Bytes is how much memory the copies have.
func (s *Store) Bytes() (all uint64) {
	for b := range s.slabs {
		all += b.used
	}
	return all
}

// Known says whether there is a copy whose sums are known.
func (s *Store) Known() bool {
	for _, p := range s.berths {
		if p.sums != nil {
			return true
		}
	}
	return false
}

// Fit gives exactly the pieces of a list places: copies of pieces with the same address and size
// stay where they are. After an error there are none.
func (s *Store) Fit(list []gpubackend.Piece) error {
	wanted := make(map[uint64]uint64, len(list))
	for _, p := range list {
		wanted[p.Address] = p.Bytes
	}
	for addr, p := range s.berths {
		if wanted[addr] != p.bytes {
			s.give(addr)
		}
	}
	for addr, p := range s.berths { // little memory doesn't keep a slab's addresses
		if p.slab.used < p.slab.size/2 {
			s.give(addr)
		}
	}
	missing := uint64(0)
	for _, p := range list {
		if s.berths[p.Address] == nil {
			missing += p.Bytes
		}
	}
	if missing == 0 {
		return nil
	}
	return s.add(list, missing)
}

// add makes a slab for the pieces that have no place.
func (s *Store) add(list []gpubackend.Piece, missing uint64) error {
	i, err := image.New(missing)
	if err != nil {
		s.Close()
		return err
	}
	s.Images.Add(missing)
	b := &slab{image: i, size: missing, used: missing}
	if s.berths == nil {
		s.berths, s.slabs = map[uint64]*berth{}, map[*slab]struct{}{}
	}
	s.slabs[b] = struct{}{}
	offset := uint64(0)
	for _, p := range list {
		if s.berths[p.Address] == nil {
			s.berths[p.Address] = &berth{slab: b, offset: offset, bytes: p.Bytes}
			offset += p.Bytes
		}
	}
	return nil
}

// give gives back the memory of a place.
func (s *Store) give(addr uint64) {
	p := s.berths[addr]
	delete(s.berths, addr)
	if p.slab.used -= p.bytes; p.slab.used == 0 {
		delete(s.slabs, p.slab)
		p.slab.image.Close()
	} else {
		p.slab.image.Drop(p.offset, p.bytes)
	}
	s.Images.Add(-p.bytes)
}

// All returns the places of pieces, each of which has one.
func (s *Store) All(list []gpubackend.Piece) []Update {
	var u updates
	for _, p := range list {
		at := s.berths[p.Address]
		u.add(at, p, 0)
	}
	return u
}

// Changed returns what the copies of pieces don't have, given the present sums of the pieces, one
// after the other. Each piece has a place.
func (s *Store) Changed(list []gpubackend.Piece, sums []uint64) []Update {
	var u updates
	for _, p := range list {
		at := s.berths[p.Address]
		if at.sums == nil {
			u.add(at, p, 0)
		}
		for i, sum := range at.sums {
			if sum != sums[i] {
				offset := uint64(i) * sectorsum.Bytes
				u.add(at, gpubackend.Piece{Address: p.Address + offset, Bytes: sectorsum.Bytes},
					offset)
			}
		}
		sums = sums[p.Bytes/sectorsum.Bytes:]
	}
	return u
}

// Note notes the sums of what the copies have now, one after the other; without sums, that these
// aren't known.
func (s *Store) Note(list []gpubackend.Piece, sums []uint64) {
	for _, p := range list {
		at := s.berths[p.Address]
		if sums == nil {
			at.sums = nil
			continue
		}
		n := p.Bytes / sectorsum.Bytes
		at.sums, sums = sums[:n:n], sums[n:]
	}
}

// Close gives up all copies. It may be called on any goroutine, if nothing else uses the Store.
func (s *Store) Close() {
	for b := range s.slabs {
		b.image.Close()
		s.Images.Add(-b.used)
	}
	s.berths, s.slabs = nil, nil
}

// updates are a list to which adjacent parts are joined.
type updates []Update

// add adds a part of a piece, which begins at an offset in it.
func (u *updates) add(at *berth, part gpubackend.Piece, offset uint64) {
	from := at.offset + offset
	n := len(*u) - 1
	if n < 0 || (*u)[n].slab != at.slab || (*u)[n].to != from {
		*u = append(*u, Update{slab: at.slab, from: from})
		n++
	}
	last := &(*u)[n]
	last.to = from + part.Bytes
	last.Image = at.slab.image.Bytes()[last.from:last.to]
	last.Pieces = gpubackend.AppendPiece(last.Pieces, part)
}
