// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// All of a table is saved that decides about handles, also about later ones. Numbers are
// little-endian:
//
//	how many rows there are, and which is the first free one: two of 32 bits
//	each row, in 16 bytes: kind (8 bits), generation (24), next free one (32), parent (64)
//
// Rows are numbered from 1, and 0 is none. A free row has kind 0 and no parent; one that isn't free
// has no next one. The device's own handles aren't saved: they mean nothing elsewhere.
const (
	savedHead = 8
	savedRow  = 16

	// savedDepth is how long a chain of parents may be: removing the first removes all of them.
	savedDepth = 64

	// atATime is how many bytes are written and read at a time, a multiple of savedRow.
	atATime = 64 << 10
)

// ErrSaved is wrapped by all errors that say what is wrong with a saved table.
var ErrSaved = errors.New("the table of objects")

// SavedBytes is how much Save writes.
func (t *Table) SavedBytes() uint64 { return savedHead + savedRow*uint64(len(t.rows)) }

// Save writes the table, unless Restore would refuse it.
func (t *Table) Save(to io.Writer) error {
	s := saved{rows: t.rows, free: t.free}
	if err := s.check(); err != nil {
		return err
	}
	b := make([]byte, 0, atATime)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.rows)))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.free))
	for i := range s.rows {
		if cap(b)-len(b) < savedRow {
			if _, err := to.Write(b); err != nil {
				return fmt.Errorf("save %w: %w", ErrSaved, err)
			}
			b = b[:0]
		}
		b = s.rows[i].appendTo(b)
	}
	if _, err := to.Write(b); err != nil {
		return fmt.Errorf("save %w: %w", ErrSaved, err)
	}
	return nil
}

func (e *row) appendTo(b []byte) []byte {
	next := e.nextFree
	if e.kind != 0 {
		next = 0 // where the row is in use it is 0
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(e.kind)|e.generation<<8)
	b = binary.LittleEndian.AppendUint32(b, uint32(next))
	return binary.LittleEndian.AppendUint64(b, e.parent)
}

// saved is a table without the device's own handles.
type saved struct {
	rows []row
	free int32
}

// read reads what Save wrote. It allocates no more than a small multiple of what it has read.
func (s *saved) read(from io.Reader) error {
	var head [savedHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	free := binary.LittleEndian.Uint32(head[4:])
	if n > maxObjects || free > n {
		return wrong("has %d rows, but names row %d as free", n, free)
	}
	s.free = int32(free)
	rows := make([]byte, atATime)
	for left := int(n); left > 0; {
		b := rows[:min(left*savedRow, len(rows))]
		if _, err := io.ReadFull(from, b); err != nil {
			return fmt.Errorf("read %w: %w", ErrSaved, err)
		}
		for ; len(b) > 0; b, left = b[savedRow:], left-1 {
			word, next := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
			if next > n || next != 0 && Kind(word) != 0 {
				return wrong("has %d rows, but after one of kind %d it names row %d as free",
					n, Kind(word), next)
			}
			s.rows = append(s.rows, row{
				kind: Kind(word), generation: word >> 8, nextFree: int32(next),
				parent: binary.LittleEndian.Uint64(b[8:]),
			})
		}
	}
	return nil
}

// check says what is wrong with a table.
func (s *saved) check() error {
	var free int
	for i := range s.rows {
		e := &s.rows[i]
		switch {
		case e.kind >= kinds:
			return wrong("has an object of the unknown kind %d", e.kind)
		case e.kind == 0 && e.parent != 0:
			return wrong("has a free row, %d, with a parent", i+1)
		case e.kind == 0:
			free++
		case s.depth(e) > savedDepth:
			return wrong("has objects in one another, more than %d deep", savedDepth)
		}
	}
	for next := s.free; next != 0; next = s.rows[next-1].nextFree {
		if free--; free < 0 || s.rows[next-1].kind != 0 {
			return wrong("has a list of free rows that contains others, or is a ring")
		}
	}
	if free > 0 {
		return wrong("has %d free rows that aren't in the list", free)
	}
	return nil
}

// depth is how many parents an object has, counted only as far as needed.
func (s *saved) depth(e *row) (depth int) {
	for ; e != nil && e.parent != 0 && depth <= savedDepth; depth++ {
		e = (&Table{rows: s.rows}).find(e.parent)
	}
	return depth
}

// weight is how much all objects count for.
func (s *saved) weight() (bytes uint64) {
	for i := range s.rows {
		bytes += weight[s.rows[i].kind] // a free one weighs nothing
	}
	return bytes
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w %w", ErrSaved, fmt.Errorf(format, args...))
}

// Restoring is a table whose objects are made again. Until Done has succeeded, a handle is found
// once its object has been made, and the table must be given up if anything fails.
type Restoring struct {
	table *Table
	saved saved
}

// Restore begins to turn t, which is empty, into the table that was saved. For each object that is
// made again, call Next, and then what calls t.Add.
func Restore(t *Table, from io.Reader) (*Restoring, error) {
	if len(t.rows) > 0 {
		return nil, fmt.Errorf("restore %w: there is one already", ErrSaved)
	}
	r := &Restoring{table: t}
	if err := r.saved.read(from); err != nil {
		return nil, err
	}
	if err := r.saved.check(); err != nil {
		return nil, err
	}
	if !t.Memory.Room(r.saved.weight()) {
		return nil, wrong("has more objects than there is host memory for (--set host-memory)")
	}
	t.rows = make([]row, len(r.saved.rows))
	for i := range t.rows {
		t.rows[i].generation = r.saved.rows[i].generation
	}
	return r, nil
}

// Next says which handles the next objects get, in this order. Each must have been saved, and is
// given out once. Earlier handles that weren't used are forgotten.
func (r *Restoring) Next(handles ...uint64) error {
	t, before := r.table, Table{rows: r.saved.rows}
	t.free = 0
	for k := len(handles) - 1; k >= 0; k-- {
		h := handles[k]
		if before.find(h) == nil {
			return wrong("has no object %#x", h)
		}
		i := int(h&indexMask) - 1
		if e := &t.rows[i]; e.kind != 0 || e.parent == announced {
			return wrong("has object %#x once, not twice", h)
		}
		t.rows[i].parent = announced
		t.rows[i].nextFree = t.free
		t.free = int32(i + 1)
	}
	for _, h := range handles {
		t.rows[h&indexMask-1].parent = 0
	}
	return nil
}

// announced marks rows while Next looks for handles that are named twice.
const announced = ^uint64(0)

// Done compares the table with what was saved: the same objects, no more and no fewer, of the same
// kinds, with the same parents. From then on the table gives out the handles that the saved one
// would.
func (r *Restoring) Done() error {
	t := r.table
	if len(t.rows) > len(r.saved.rows) {
		return wrong("has got %d objects too many", len(t.rows)-len(r.saved.rows))
	}
	for i := range t.rows {
		is, was := &t.rows[i], &r.saved.rows[i]
		h := handle(i, was.generation)
		switch {
		case is.generation != was.generation || is.kind == 0 && was.kind != 0:
			return wrong("lacks object %#x", h)
		case is.kind != was.kind:
			return wrong("has object %#x of kind %d, it was of kind %d", h, is.kind, was.kind)
		case is.parent != was.parent:
			return wrong("has object %#x in %#x, it was in %#x", h, is.parent, was.parent)
		}
	}
	for i := range t.rows {
		t.rows[i].nextFree = r.saved.rows[i].nextFree
	}
	t.free = r.saved.free
	return nil
}
