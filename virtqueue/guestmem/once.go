// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Extent is a range of guest memory, and by what right it is mapped.
type Extent struct {
	Addr, Bytes uint64
	By          Right
}

// ReadOnce copies parts, one after the other, to p, which is as long as they are. It is Read, but
// of a sparse memory nothing stays mapped that wasn't before. That takes longer.
func (m *Memory) ReadOnce(p []byte, parts ...Extent) error {
	if m.sparse {
		return m.once(p, parts, false)
	}
	return each(p, parts, m.Read)
}

// WriteOnce is Write in the same way.
func (m *Memory) WriteOnce(p []byte, parts ...Extent) error {
	if !m.sparse {
		return each(p, parts, m.Write)
	}
	err := m.once(p, parts, true)
	for _, x := range parts {
		if !errors.Is(err, ErrRange) {
			m.dirty.Mark(x.Addr, x.Bytes)
		}
	}
	return err
}

// each moves parts one by one.
func each(p []byte, parts []Extent, move func(p []byte, gpa uint64) error) error {
	for _, x := range parts {
		if err := move(p[:x.Bytes], x.Addr); err != nil {
			return err
		}
		p = p[x.Bytes:]
	}
	return nil
}

// mostAtOnce is how many pieces are mapped at a time, unless a part has more.
const mostAtOnce = 64

// once moves parts, many at a time.
func (m *Memory) once(p []byte, parts []Extent, write bool) error {
	for _, x := range parts {
		if err := m.Check(x.Addr, x.Bytes); err != nil {
			return err
		}
	}
	w := panes{write: write}
	for _, x := range parts {
		for x.Bytes > 0 {
			mp := &m.maps[m.find(x.Addr)]
			off := x.Addr - mp.start
			n := min(x.Bytes, uint64(len(mp.host))-off)
			if w.full(mp) {
				if err := w.move(); err != nil {
					return err
				}
			}
			w.add(mp, off, p[:n], x.By)
			p, x.Addr, x.Bytes = p[n:], x.Addr+n, x.Bytes-n
		}
	}
	return w.move()
}

// panes are what is mapped, side by side, for as long as it is moved, in pieces of one size.
type panes struct {
	write  bool
	list   []pane
	pieces uint64
}

// pane is a part of a region, and of a user's memory.
type pane struct {
	mp          *mapping
	first, last uint64 // pieces
	off         uint64 // in the first one
	p           []byte
	by          Right
}

// full says whether what is there must be moved before more is added.
func (w *panes) full(mp *mapping) bool {
	return len(w.list) > 0 && (w.pieces >= mostAtOnce || w.list[0].mp.piece != mp.piece)
}

func (w *panes) add(mp *mapping, off uint64, p []byte, by Right) {
	first, last := mp.piecesOf(off, uint64(len(p)))
	w.list = append(w.list, pane{mp, first, last, mp.slack + off - first*mp.piece, p, by})
	w.pieces += last - first + 1
}

// move moves all that was added, and forgets it.
func (w *panes) move() error {
	panes, pieces := w.list, w.pieces
	w.list, w.pieces = w.list[:0], 0
	if len(panes) == 0 {
		return nil
	}
	piece := panes[0].mp.piece
	whole, begin, err := reserve(pieces*piece, piece)
	if err != nil {
		return fmt.Errorf("map pieces of guest memory: %w", err)
	}
	defer func() { _ = unix.Munmap(whole) }()
	mapped := whole[begin:]
	for i := range panes {
		x := &panes[i]
		prot, fd, flags := x.mp.file(w.write, x.by)
		b := mapped[:(x.last-x.first+1)*piece]
		mapped = mapped[len(b):]
		_, err := replace(b, fd, x.mp.fileOffset-x.mp.slack+x.first*piece, prot, flags)
		if err != nil {
			return fmt.Errorf("map pieces of guest memory: %w", err)
		}
	}
	return guard(whole, func() { copyPanes(whole[begin:], panes, piece, w.write) })
}

// copyPanes copies what is mapped side by side.
func copyPanes(mapped []byte, panes []pane, piece uint64, write bool) {
	for i := range panes {
		x := &panes[i]
		b := mapped[x.off:][:len(x.p)]
		mapped = mapped[(x.last-x.first+1)*piece:]
		if write {
			copy(b, x.p)
		} else {
			copy(x.p, b)
		}
	}
}

// guard runs f and turns a fault on b into ErrFault.
func guard(b []byte, f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = faultOf(r, func(addr uintptr) bool { return holds(b, addr) })
		}
	}()
	f()
	return nil
}
