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
// changed since.
const (
	Nowhere Rest = iota
	Ahead
	Filed
	Early
)

// SameRun is a part of a program's memory: first bytes that are in the record before, or in the
// area, from an offset of the program's memory there, and then bytes in this record.
type SameRun struct{ Same, From, Own uint64 }

// runBytes is the length of a run as it is written.
const runBytes = 24

// MaxRuns is how many a program may have. If every second sector of 256 KiB has changed, they cover
// half a TiB.
const MaxRuns = 1 << 20

// MaxFileRuns is how many a file may have: all are kept while it is read.
const MaxFileRuns = 8 << 20

// EncodeRuns writes section "same": all of the program's memory in its order. What is taken from
// the record before is in the same order there, and nothing is taken twice.
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
	last uint64             // end of what is elsewhere
}

// Has adds a piece that is elsewhere, at an offset. What is there before something that was taken
// already counts as changed: memory is taken in its order.
func (c *Whereabouts) Has(p gpubackend.Piece, at uint64) {
	if at < c.last {
		c.Lacks(p)
		return
	}
	if n := len(c.Runs) - 1; n < 0 || c.Runs[n].Own > 0 || c.Runs[n].From+c.Runs[n].Same != at {
		c.Runs = append(c.Runs, SameRun{From: at})
	}
	c.Runs[len(c.Runs)-1].Same += p.Bytes
	c.last, c.Same = at+p.Bytes, c.Same+p.Bytes
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
	runs      []SameRun
	same, own uint64 // bytes of all of them
}

// decodeUnchanged reads section "same" of a program. based says that it is in the record before, or
// in the area, with so many bytes of memory.
func decodeUnchanged(b []byte, based bool, base uint64) (u unchanged, err error) {
	if len(b) > 0 && !based {
		return u, fmt.Errorf("%w has memory in parts of a program that isn't in anything before it",
			ErrSaved)
	}
	if len(b)%runBytes != 0 || len(b) > MaxSame {
		return u, fmt.Errorf("%w says in %d bytes what memory is the same", ErrSaved, len(b))
	}
	behind := uint64(0) // end of what was taken from the record before
	for ; len(b) > 0; b = b[runBytes:] {
		r := SameRun{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
			binary.LittleEndian.Uint64(b[16:])}
		if r.From < behind || r.From > base || r.Same > base-r.From || r.Own > 1<<62-u.own ||
			r.Same == 0 && r.Own == 0 {
			return u, fmt.Errorf("%w has memory where none can be: %+v", ErrSaved, r)
		}
		behind = r.From + r.Same
		u.runs, u.same, u.own = append(u.runs, r), u.same+r.Same, u.own+r.Own
	}
	return u, nil
}
