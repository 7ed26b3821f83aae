// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"encoding/binary"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
)

// Rest says where the device memory is that a worker doesn't write to its record.
type Rest int

// All is written; or all but what was sent ahead and hasn't changed since; or all but what the file
// has from which the program went on; or all but what was written to the file ahead and hasn't
// changed since, or what the file had from which the program went on, if it was looked at then.
const (
	Nowhere Rest = iota
	Ahead
	Filed
	Early
)

// SameRun is a part of a program's memory: first bytes that are in the record before, from an
// offset of the program's memory there, and then bytes in this record. With InArea they are in the
// area, and the rest of From is the offset in the program's sectors, one behind the other.
type SameRun struct{ Same, From, Own uint64 }

// InArea says that From means the area.
const InArea = 1 << 63

// where says where the first bytes are, and at tells the offset there.
func (r SameRun) where() where {
	if r.From&InArea != 0 {
		return inArea
	}
	return inRecord
}

func (r SameRun) at() uint64 { return r.From &^ InArea }

// where memory is that a record needn't have: in the record before, or in the area.
type where int

const (
	inRecord where = iota
	inArea
)

// inEach is a number for each of them.
type inEach [2]uint64

// runBytes is the length of a run as it is written.
const runBytes = 24

// MaxRuns is how many a program may have. If every second sector of 256 KiB has changed, they cover
// half a TiB.
const MaxRuns = 1 << 20

// MaxFileRuns is how many a file may have: all are kept while it is read.
const MaxFileRuns = 8 << 20

// EncodeRuns writes section "same": all of the program's memory in its order. What is taken from
// the record before is in the same order there, and so is what is taken from the area; nothing is
// taken twice.
func EncodeRuns(list []SameRun) []byte {
	b := make([]byte, 0, len(list)*runBytes)
	for _, r := range list {
		b = binary.LittleEndian.AppendUint64(b, r.Same)
		b = binary.LittleEndian.AppendUint64(b, r.From)
		b = binary.LittleEndian.AppendUint64(b, r.Own)
	}
	return b
}

// Whereabouts collects where memory is, in its order.
type Whereabouts struct {
	Runs []SameRun
	Same uint64             // bytes of what is elsewhere
	Rest []gpubackend.Piece // what isn't
	last inEach             // ends of what was taken
}

// Has adds a piece that is elsewhere, from a place as SameRun has it. What is there before
// something that was taken already counts as changed: memory is taken in its order.
func (c *Whereabouts) Has(p gpubackend.Piece, from uint64) {
	r := SameRun{From: from}
	if r.at() < c.last[r.where()] {
		c.Lacks(p)
		return
	}
	if n := len(c.Runs) - 1; n < 0 || c.Runs[n].Own > 0 || c.Runs[n].From+c.Runs[n].Same != from {
		c.Runs = append(c.Runs, r)
	}
	c.Runs[len(c.Runs)-1].Same += p.Bytes
	c.last[r.where()], c.Same = r.at()+p.Bytes, c.Same+p.Bytes
}

// Lacks adds a piece that isn't.
func (c *Whereabouts) Lacks(p gpubackend.Piece) {
	if len(c.Runs) == 0 {
		c.Runs = append(c.Runs, SameRun{})
	}
	c.Runs[len(c.Runs)-1].Own += p.Bytes
	c.Rest = gpubackend.AppendPiece(c.Rest, p)
}

// Useless says that all is to be written.
func (c *Whereabouts) Useless() bool { return c.Same == 0 || len(c.Runs) > MaxRuns }

// unchanged is the content of section "same". Without runs, all memory is in the record itself.
type unchanged struct {
	runs []SameRun
	same inEach // bytes of all of them
	own  uint64
}

// all is how many bytes are elsewhere.
func (u *unchanged) all() uint64 { return u.same[inRecord] + u.same[inArea] }

// decodeUnchanged reads section "same" of a program, of which what lies before has so many bytes of
// memory. based says that there is something before it at all.
func decodeUnchanged(b []byte, based bool, have inEach) (u unchanged, err error) {
	if len(b) > 0 && !based {
		return u, fmt.Errorf("%w has memory in parts of a program that isn't in anything before it",
			ErrSaved)
	}
	if len(b)%runBytes != 0 || len(b) > MaxSame {
		return u, fmt.Errorf("%w says in %d bytes what memory is the same", ErrSaved, len(b))
	}
	var behind inEach // ends of what was taken
	for ; len(b) > 0; b = b[runBytes:] {
		r := SameRun{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
			binary.LittleEndian.Uint64(b[16:])}
		from, at := r.where(), r.at()
		if at < behind[from] || at > have[from] || r.Same > have[from]-at || r.Own > 1<<62-u.own ||
			r.Same == 0 && r.Own == 0 {
			return u, fmt.Errorf("%w has memory where none can be: %+v", ErrSaved, r)
		}
		behind[from] = at + r.Same
		u.runs, u.own = append(u.runs, r), u.own+r.Own
		u.same[from] += r.Same
	}
	return u, nil
}
