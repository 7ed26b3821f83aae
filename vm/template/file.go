// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// magic begins each file. The rest is, little endian:
//
//	u64 bytes of memory
//	u64 bytes of state, and the state
//	for each run of pages that aren't zero: u64 offset, u64 bytes, and the pages
//	u64 end, which no offset is: the file is whole
const (
	magic = "PVMTPL1\n"
	end   = ^uint64(0)
)

// page is the unit in which memory is looked at.
const page = 4096

const (
	mostRun   = 256 * page // bytes of a run
	mostState = 64 << 20   // bytes of state
)

var zeroes [page]byte

// errDamaged is of a file that isn't a whole template.
var errDamaged = errors.New("the template is damaged")

// write writes a template.
func write(w io.Writer, state []byte, memory *os.File, size int64) error {
	b := bufio.NewWriterSize(w, mostRun)
	_, _ = b.WriteString(magic) // bufio keeps the first error
	number(b, uint64(size))
	number(b, uint64(len(state)))
	_, _ = b.Write(state)
	buffer := make([]byte, mostRun)
	for at := int64(0); at < size; at += mostRun {
		part := buffer[:min(mostRun, size-at)]
		if _, err := memory.ReadAt(part, at); err != nil {
			return fmt.Errorf("read the memory of the VM: %w", err)
		}
		writeRuns(b, part, at)
	}
	number(b, end)
	return b.Flush()
}

// writeRuns writes the runs of pages in a part of memory.
func writeRuns(b *bufio.Writer, part []byte, at int64) {
	for from := 0; from < len(part); {
		if isZero(part[from:]) {
			from += page
			continue
		}
		to := from
		for to < len(part) && !isZero(part[to:]) {
			to = min(to+page, len(part))
		}
		number(b, uint64(at)+uint64(from))
		number(b, uint64(to-from))
		_, _ = b.Write(part[from:to])
		from = to
	}
}

// isZero says whether the first page of b, which may be cut short, is zero.
func isZero(b []byte) bool {
	b = b[:min(page, len(b))]
	return bytes.Equal(b, zeroes[:len(b)])
}

func number(b *bufio.Writer, n uint64) {
	_, _ = b.Write(binary.LittleEndian.AppendUint64(nil, n))
}

// read reads a template into memory of that size, which is zero before, and returns the state.
func read(r io.Reader, memory io.WriterAt, size int64) (state []byte, err error) {
	in := reader{from: bufio.NewReaderSize(r, mostRun)}
	head := make([]byte, len(magic))
	in.fill(head)
	if string(head) != magic || in.number() != uint64(size) {
		return nil, errDamaged
	}
	n := in.number()
	if n > mostState {
		return nil, errDamaged
	}
	state = make([]byte, n)
	in.fill(state)
	return state, in.runs(memory, uint64(size))
}

// reader reads a template, and keeps the first error.
type reader struct {
	from io.Reader
	err  error
}

// runs puts the runs of pages into memory.
func (r *reader) runs(memory io.WriterAt, size uint64) error {
	buffer := make([]byte, mostRun)
	for {
		at := r.number()
		if r.err != nil || at == end {
			return r.err
		}
		n := r.number()
		if n > mostRun || at > size || n > size-at {
			return errDamaged
		}
		if r.fill(buffer[:n]); r.err != nil {
			return r.err
		}
		if _, err := memory.WriteAt(buffer[:n], int64(at)); err != nil {
			return fmt.Errorf("write the memory of the VM: %w", err)
		}
	}
}

func (r *reader) number() uint64 {
	var b [8]byte
	r.fill(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// fill fills b; with zeroes after an error.
func (r *reader) fill(b []byte) {
	if r.err != nil {
		clear(b)
		return
	}
	if _, err := io.ReadFull(r.from, b); err != nil {
		r.err = fmt.Errorf("%w: %w", errDamaged, err)
		clear(b)
	}
}
