// SPDX-License-Identifier: Apache-2.0

// Package kept has copies of device memory in the host's memory, which may be kept when the memory
// itself goes on being used: the next time, only what has changed since is copied.
//
// What has changed is seen by the sums of sectors (package sectorsum). A piece is known by its
// address and size, and nothing is assumed of it: what was freed and allocated again at the same
// place is what it was if its bytes are.
//
// # Who owns what
//
// A Store is the worker's loop's, and so of one guest process: its memory is the worker's own,
// which nobody else can read, and ends with it.
//
// # Who may lie
//
// A guest's program decides what is in its memory, and so what sums are compared. Were it to guess
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
	// Images counts the bytes of what there is.
	Images *atomic.Uint64
	berths map[uint64]*berth // by address
	slabs  map[*slab]struct{}
}

// berth is where the copy of a piece is.
type berth struct {
	slab          *slab
	offset, bytes uint64
	sums          []uint64 // of its sectors; nil: what is there isn't known
}

// slab is memory for several pieces. What isn't used of it any more has been given back.
type slab struct {
	image      *image.Image
	size, used uint64
}

// Update is some of pieces, and one range of memory for the copy of that.
type Update struct {
	Pieces   []gpubackend.Piece
	Image    []byte
	slab     *slab
	from, to uint64
}

// Bytes is how much memory there is for copies.
func (s *Store) Bytes() (all uint64) {
	for b := range s.slabs {
		all += b.used
	}
	return all
}

// Known says whether there is a copy of which the sums are known.
func (s *Store) Known() bool {
	for _, p := range s.berths {
		if p.sums != nil {
			return true
		}
	}
	return false
}

// Fit gives each piece of a list a place, and nothing else: copies of pieces that are at the same
// address, and as large, stay where they are. After an error there is none.
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
	for addr, p := range s.berths { // no address space for little memory
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

// give gives the memory of a place back.
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

// All is where the copies of pieces are, each of which has a place.
func (s *Store) All(list []gpubackend.Piece) []Update {
	var u updates
	for _, p := range list {
		at := s.berths[p.Address]
		u.add(at, p, 0)
	}
	return u
}

// Changed is what the copies of pieces, each of which has a place, don't have, if the pieces have
// such sums now, one behind the other.
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

// Note notes the sums of what is in the copies now, one behind the other; without any, that it
// isn't known.
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

// Close gives all copies up. It may come on any goroutine, if nothing else is asked of the Store.
func (s *Store) Close() {
	for b := range s.slabs {
		b.image.Close()
		s.Images.Add(-b.used)
	}
	s.berths, s.slabs = nil, nil
}

// updates grow by what comes behind their last one.
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
	if i := len(last.Pieces) - 1; i >= 0 &&
		last.Pieces[i].Address+last.Pieces[i].Bytes == part.Address {
		last.Pieces[i].Bytes += part.Bytes
		return
	}
	last.Pieces = append(last.Pieces, part)
}
