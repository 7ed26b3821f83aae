// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// shownFor says what for a piece of a sparse memory is mapped.
type shownFor uint8

const (
	toRead shownFor = 1 + iota
	toWrite
	forSlices // to write, and for good
)

// mostShown is how many pieces of a sparse memory stay mapped because they were read or written.
const mostShown = 1024

// NewSparse is New for a user who touches little of the memory by itself. It takes addresses, where
// nothing can be touched, and maps pieces of the memory (pages, or huge pages) when they are first
// needed: by Read to be read only, by Write, and by Slice for good.
func NewSparse(regions []Region) (*Memory, error) { return newMemory(regions, unix.PROT_NONE, nil) }

// Numbered is a region of a file that this process doesn't have: FD is only a number that stands
// for the file where it is mapped, if another process allows that. So it must say what the file is.
type Numbered struct {
	Region
	ReadFD       int    // the number where it is mapped to be read only; it may be FD, too
	Piece        uint64 // the size of a page, or of a huge page, in the file
	ShrinkSealed bool
}

// NewNumbered is NewSparse for such regions.
func NewNumbered(regions []Numbered) (*Memory, error) {
	list := make([]Region, len(regions))
	for i, r := range regions {
		if page := uint64(unix.Getpagesize()); r.Piece < page || r.Piece&(r.Piece-1) != 0 {
			return nil, fmt.Errorf("map guest memory: region %d: pieces of %d bytes", i, r.Piece)
		}
		list[i] = r.Region
	}
	return newMemory(list, unix.PROT_NONE, func(i int) (fileFacts, error) {
		r := &regions[i]
		return fileFacts{r.FD, r.ReadFD, false, r.Piece, r.ShrinkSealed}, nil
	})
}

// reserve takes so many addresses, of which those from begin on are aligned.
func reserve(length, align uint64) (whole []byte, begin uint64, err error) {
	room := align - uint64(unix.Getpagesize()) // the kernel aligns to pages
	whole, err = unix.Mmap(-1, 0, int(length+room), unix.PROT_NONE, hidden)
	if err != nil {
		return nil, 0, err
	}
	return whole, -uint64(Addr(whole)) % align, nil
}

// hidden are the flags of addresses at which nothing is.
const hidden = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE

// piecesOf are the first and last piece that n bytes at an offset in the region touch.
func (mp *mapping) piecesOf(off, n uint64) (first, last uint64) {
	n = min(n, uint64(len(mp.host))-off)
	return (mp.slack + off) / mp.piece, (mp.slack + off + n - 1) / mp.piece
}

// bytes are those of a piece.
func (mp *mapping) bytes(number uint64) []byte {
	begin := uint64(Addr(mp.host)-Addr(mp.whole)) - mp.slack + number*mp.piece
	return mp.whole[begin : begin+mp.piece]
}

// showSlice maps what a Slice has.
func (m *Memory) showSlice(mp *mapping, off, n uint64) error {
	if !m.sparse {
		return nil
	}
	m.showing.Lock()
	defer m.showing.Unlock()
	return m.show(mp, off, n, forSlices, m.rights.Slice)
}

// show maps the pieces that some of n bytes at an offset in a region are in, if they aren't mapped:
// as many as the region has. Its caller has the lock until it has touched them.
func (m *Memory) show(mp *mapping, off, n uint64, as shownFor, by Right) error {
	if !m.sparse {
		return nil
	}
	first, last := mp.piecesOf(off, n)
	if as < forSlices && m.shown+int(last-first) >= mostShown {
		if err := m.hide(); err != nil {
			return err
		}
	}
	for i := first; i <= last; i++ {
		if mp.pieces[i] >= as {
			continue
		}
		prot, fd, flags := mp.file(as >= toWrite, by)
		gone, err := replace(mp.bytes(i), fd, mp.fileOffset-mp.slack+i*mp.piece, prot, flags)
		if gone {
			m.isHidden(mp, i)
		}
		if err != nil {
			return fmt.Errorf("map a piece of guest memory: %w", err)
		}
		m.count(mp.pieces[i], -1)
		m.count(as, 1)
		mp.pieces[i] = as
	}
	return nil
}

// isHidden notes that a piece isn't mapped any more.
func (m *Memory) isHidden(mp *mapping, number uint64) {
	m.count(mp.pieces[number], -1)
	delete(mp.pieces, number)
}

// count counts a piece that may be hidden.
func (m *Memory) count(as shownFor, n int) {
	if as == toRead || as == toWrite {
		m.shown += n
	}
}

// hide unmaps all pieces that no Slice has.
func (m *Memory) hide() error {
	for i := range m.maps {
		mp := &m.maps[i]
		for number, as := range mp.pieces {
			if as == forSlices {
				continue
			}
			gone, err := replace(mp.bytes(number), -1, 0, unix.PROT_NONE, hidden)
			if err != nil && !gone {
				return fmt.Errorf("unmap a piece of guest memory: %w", err)
			}
			m.isHidden(mp, number)
		}
	}
	return nil
}
