// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"fmt"
	"runtime/debug"
)

// Run is a part of a guest-physical range that is contiguous in host memory and in its file.
type Run struct {
	GuestAddr uint64 // guest-physical address of the first byte
	Bytes     []byte // the guest's own bytes, which change; a sparse memory doesn't show them
	// the file that holds them, valid until Close and owned by the Memory; or a number (Numbered)
	FD           int
	ReadFD       int    // the same, to map it to be read only
	FileOffset   uint64 // where in the file Bytes begins
	ShrinkSealed bool   // the file can't be cut short, so C code may touch the bytes
	Right        Right  // by which it is mapped elsewhere, if another process decides on that
}

// Regions returns what the memory is made of, in order of guest-physical addresses. The
// descriptors stay owned by the Memory.
func (m *Memory) Regions() []Region {
	out := make([]Region, len(m.maps))
	for i := range m.maps {
		mp := &m.maps[i]
		out[i] = Region{mp.start, uint64(len(mp.host)), mp.fd, mp.fileOffset}
	}
	return out
}

// Numbered returns what the memory is made of, with what a process must know that gets numbers in
// place of the descriptors, which stay owned by the Memory.
func (m *Memory) Numbered() []Numbered {
	out := make([]Numbered, len(m.maps))
	for i, r := range m.Regions() {
		f := &m.maps[i].fileFacts
		out[i] = Numbered{r, f.readFD, f.piece, f.shrinkSealed}
	}
	return out
}

// ShrinkSealed reports whether no part of the memory can be cut off by its front end.
func (m *Memory) ShrinkSealed() bool {
	for i := range m.maps {
		if !m.maps[i].shrinkSealed {
			return false
		}
	}
	return len(m.maps) > 0
}

// find returns the index of the mapping that holds the address, or -1.
func (m *Memory) find(gpa uint64) int {
	lo, hi := 0, len(m.maps)
	for lo < hi {
		mid := (lo + hi) / 2
		if m.maps[mid].last < gpa {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(m.maps) || gpa < m.maps[lo].start {
		return -1
	}
	return lo
}

// Check reports whether the whole range is guest memory. An empty range always is.
func (m *Memory) Check(gpa, n uint64) error {
	if n == 0 {
		return nil
	}
	last := gpa + (n - 1)
	if last < gpa {
		return rangeError(gpa, n)
	}
	i := m.find(gpa)
	if i < 0 {
		return rangeError(gpa, n)
	}
	for m.maps[i].last < last {
		if i+1 == len(m.maps) || m.maps[i+1].start != m.maps[i].last+1 {
			return rangeError(gpa, n)
		}
		i++
	}
	return nil
}

func rangeError(gpa, n uint64) error {
	return fmt.Errorf("%d bytes at %#x: %w", n, gpa, ErrRange)
}

// Slice returns the guest's own bytes of a range that lies in one region. They change under the
// reader, and touching them outside a Guard can end the process. A sparse memory maps them for
// good.
func (m *Memory) Slice(gpa, n uint64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	i := m.find(gpa)
	if i < 0 {
		return nil, rangeError(gpa, n)
	}
	mp := &m.maps[i]
	if n-1 > mp.last-gpa {
		if err := m.Check(gpa, n); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, gpa, ErrSplit)
	}
	off := gpa - mp.start
	if err := m.showSlice(mp, off, n); err != nil {
		return nil, err
	}
	return mp.host[off : off+n : off+n], nil
}

// AppendRuns appends the contiguous parts of a range to dst. It allocates only if dst is too
// small. On error dst is returned as it was.
func (m *Memory) AppendRuns(dst []Run, gpa, n uint64) ([]Run, error) {
	if err := m.Check(gpa, n); err != nil {
		return dst, err
	}
	for n > 0 {
		mp := &m.maps[m.find(gpa)]
		off := gpa - mp.start
		k := min(n, uint64(len(mp.host))-off)
		dst = append(dst, Run{
			GuestAddr:    gpa,
			Bytes:        mp.host[off : off+k : off+k],
			FD:           mp.fd,
			ReadFD:       mp.readFD,
			FileOffset:   mp.fileOffset + off,
			ShrinkSealed: mp.shrinkSealed,
		})
		gpa, n = gpa+k, n-k
	}
	return dst, nil
}

// Read copies guest memory to p.
func (m *Memory) Read(p []byte, gpa uint64) error { return m.ReadBy(p, gpa, m.rights.Read) }

// ReadBy is Read by another right than the memory's own.
func (m *Memory) ReadBy(p []byte, gpa uint64, by Right) (err error) {
	defer m.Recover(debug.SetPanicOnFault(true), &err)
	if err := m.Check(gpa, uint64(len(p))); err != nil {
		return err
	}
	if m.sparse {
		m.showing.Lock()
		defer m.showing.Unlock()
	}
	for len(p) > 0 {
		mp := &m.maps[m.find(gpa)]
		if err := m.show(mp, gpa-mp.start, uint64(len(p)), toRead, by); err != nil {
			return err
		}
		k := copy(p, mp.host[gpa-mp.start:])
		p, gpa = p[k:], gpa+uint64(k)
	}
	return nil
}

// Write copies p to guest memory, and marks the pages if there is a log of dirty ones.
func (m *Memory) Write(p []byte, gpa uint64) (err error) {
	if err := m.Check(gpa, uint64(len(p))); err != nil {
		return err
	}
	err = m.write(p, gpa)
	m.dirty.Mark(gpa, uint64(len(p)))
	return err
}

// write copies p to a range that Check has passed. After a fault some of it may be there.
func (m *Memory) write(p []byte, gpa uint64) (err error) {
	defer m.Recover(debug.SetPanicOnFault(true), &err)
	if m.sparse {
		m.showing.Lock()
		defer m.showing.Unlock()
	}
	for len(p) > 0 {
		mp := &m.maps[m.find(gpa)]
		if err := m.show(mp, gpa-mp.start, uint64(len(p)), toWrite, m.rights.Write); err != nil {
			return err
		}
		k := copy(mp.host[gpa-mp.start:], p)
		p, gpa = p[k:], gpa+uint64(k)
	}
	return nil
}
