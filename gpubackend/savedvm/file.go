// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/fileat"
	"github.com/paracuda/paracuda/gpubackend/record"
)

// MaxStates is how many records a file may have.
const MaxStates = 64

// File is a file with records of a VM, all of which were whole when it was opened.
type File struct {
	States []*State // the first is the oldest; there is one
	// Behind says what is wrong with what follows them; nil: nothing follows.
	Behind error

	runs int // of all that was read
}

// State is a record in a file, of a VM's state at some time.
type State struct {
	Header   record.Header
	Programs []Program
	Sum      uint32 // by which it is known
	End      int64  // where it ends in the file
	// Descriptors is what descriptors in the guest stand for; nil: nothing was written of any.
	Descriptors []byte

	from   io.ReaderAt
	at     int64     // where its record begins
	area   Area      // before that; without sectors: none
	memory []*memory // of the programs
}

// OpenFile reads all of a file. It is an error if it has no record of a VM.
func OpenFile(from io.ReaderAt) (*File, error) {
	f := &File{}
	for at := int64(0); ; {
		s, err := f.check(from, at)
		switch {
		case err != nil && len(f.States) == 0:
			return nil, err
		case err != nil:
			f.Behind = fmt.Errorf("after its first %d bytes: %w", at, err)
			return f, nil
		case s == nil:
			return f, nil
		}
		f.States = append(f.States, s)
		at = s.End
	}
}

// Last is the newest state.
func (f *File) Last() *State { return f.States[len(f.States)-1] }

// State is the state with that sum, nil if there is none.
func (f *File) State(sum uint32) *State {
	for i := len(f.States) - 1; i >= 0; i-- {
		if f.States[i].Sum == sum {
			return f.States[i]
		}
	}
	return nil
}

// check reads the record at an offset, as the next state; nil: the file ends there.
func (f *File) check(from io.ReaderAt, at int64) (*State, error) {
	if n, err := from.ReadAt(make([]byte, 1), at); at > 0 && n == 0 && errors.Is(err, io.EOF) {
		return nil, nil
	}
	if len(f.States) == MaxStates {
		return nil, fmt.Errorf("%w is one too many: a file has at most %d", ErrSaved, MaxStates)
	}
	area, at, err := areaAt(from, at)
	if err != nil {
		return nil, err
	}
	s := &State{from: from, at: at, area: area}
	c := checking{file: f, state: s}
	if len(f.States) > 0 {
		c.before = f.Last()
	}
	summary, err := record.Check(s.reader(), c.section)
	if err != nil {
		return nil, err
	}
	s.Header, s.Sum, s.End = summary.Header, summary.Sum, at+summary.Length
	return s, c.over()
}

// reader reads the file from where the record begins.
func (s *State) reader() io.Reader { return &stateReader{s.from, s.at} }

// stateReader reads a file from a place on: what is large several parts at the same time.
type stateReader struct {
	from io.ReaderAt
	at   int64
}

// Read implements io.Reader.
func (f *stateReader) Read(p []byte) (int, error) {
	n, err := f.from.ReadAt(p, f.at)
	if f.at += int64(n); n > 0 {
		err = nil
	}
	return n, err
}

// ReadParts implements record.PartsReader.
func (f *stateReader) ReadParts(parts [][]byte) error {
	err := fileat.ReadParts(parts, f.at, func(p []byte, at int64) error {
		n, err := f.from.ReadAt(p, at)
		if n == len(p) {
			return nil
		}
		return err
	})
	for _, p := range parts {
		f.at += int64(len(p))
	}
	return err
}

// Runs is how many runs the file has, of at most MaxFileRuns.
func (f *File) Runs() int { return f.runs }

// Memory is how much device memory a program has in this record and those before it, and in how
// many parts at most.
func (s *State) Memory(number int) (bytes uint64, parts int) {
	return s.memory[number].bytes, s.memory[number].parts
}

// Each reads the record: see Reader.Each. Memory that is in earlier records is read too.
func (s *State) Each(give func(number int, p Program) (to io.WriteCloser, end func() error),
) error {
	r := s.reader()
	v, err := Open(r)
	if err != nil {
		return err
	}
	if len(v.Programs) != len(s.Programs) {
		return fmt.Errorf("%w has changed", ErrSaved)
	}
	if s.Descriptors != nil {
		if _, err := Next(v.record, DescriptorsName, MaxDescriptors); err != nil {
			return err
		}
	}
	// The programs whose memory is in the area may have ended before the record was written.
	if slices.ContainsFunc(v.Programs, func(p Program) bool { return p.Sectors > 0 }) {
		if _, err := Next(v.record, SectorsName, maxSectorBytes); err != nil {
			return err
		}
	}
	v.state = s
	return v.Each(give)
}
