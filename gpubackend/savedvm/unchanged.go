// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"encoding/binary"
	"fmt"
)

// Rest is where device memory is that a worker doesn't write.
type Rest int

// All is written; but for what went ahead of the VM, and hasn't changed since; or but for what the
// file has that the program went on from.
const (
	Nowhere Rest = iota
	Ahead
	Filed
)

// SameRun is a part of a program's memory: bytes that are in the record before it in a file, from
// an offset on in what that has of the program's memory, and then bytes of its own.
type SameRun struct{ Same, From, Own uint64 }

// runBytes is how long one is, as it is written.
const runBytes = 24

// MaxRuns is how many a program may have. With sectors of 256 KiB, of which each second one has
// changed, they are half a TiB.
const MaxRuns = 1 << 20

// MaxFileRuns is how many a file may have: so many are kept while it is read.
const MaxFileRuns = 8 << 20

// EncodeRuns writes section "same": all of the program's memory in its order. What is taken from
// the record before is in that in the same order, and nothing of it twice.
func EncodeRuns(list []SameRun) []byte {
	b := make([]byte, 0, len(list)*runBytes)
	for _, r := range list {
		b = binary.LittleEndian.AppendUint64(b, r.Same)
		b = binary.LittleEndian.AppendUint64(b, r.From)
		b = binary.LittleEndian.AppendUint64(b, r.Own)
	}
	return b
}

// unchanged is what section "same" says. Without runs all memory is a record's own.
type unchanged struct {
	runs      []SameRun
	same, own uint64 // bytes of all of them
}

// decodeUnchanged reads section "same" of a program of whose memory the record before has so many
// bytes.
func decodeUnchanged(b []byte, base uint64) (u unchanged, err error) {
	if len(b)%runBytes != 0 || len(b) > MaxSame {
		return u, fmt.Errorf("%w says in %d bytes what memory is the same", ErrSaved, len(b))
	}
	behind := uint64(0) // what was taken of the record before
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
